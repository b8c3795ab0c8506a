// What is going on, in a few words: for the toolbar, the timeline and screen readers.

import { oneLine } from '../protocol/text';
import type { Presenter } from './presenter';

export interface Status {
  kind: 'paused' | 'running' | 'recording' | 'past' | 'gone' | 'off';
  text: string;
  /** what stands beside it says the same: a button's label, the title */
  said?: boolean;
}

/** The state of things in a few words. */
export function statusOf(presenter: Presenter): Status {
  const { model } = presenter;
  const { state } = model.store;
  const { status, axis, cursor } = model;
  if (status.kind === 'failed') {
    return { kind: 'gone', text: 'Cannot be shown' };
  }
  if (status.kind === 'disconnected') {
    return { kind: 'gone', text: 'Kernel gone' };
  }
  if (status.kind === 'none') {
    return { kind: 'off', text: 'No kernel' };
  }
  if (status.kind === 'connecting') {
    return { kind: 'off', text: 'Connecting' };
  }
  if (cursor !== null && cursor < model.length) {
    const created = axis.forward.length;
    return cursor <= created && axis.slots === 0
      ? { kind: 'past', text: `After node ${cursor} of ${created}` }
      : cursor < created
        ? { kind: 'past', text: `Forward, node ${cursor} of ${created}` }
        : { kind: 'past', text: `Before step ${cursor - created + 1} of ${axis.slots}` };
  }
  if (state.paused) {
    return {
      kind: 'paused',
      text:
        `Paused before step ${state.paused.order + 1} of ${state.paused.total}` +
        // Each in a thread of its own; they stop one after the other.
        (state.paused.waiting ? ` · ${state.paused.waiting} more waiting to stop` : '')
    };
  }
  if (status.kind === 'offline') {
    return { kind: 'off', text: oneLine(status.subject, 60) || 'Recording', said: true };
  }
  const task = model.shownTask();
  if (task && task.ended === 'no') {
    return { kind: 'running', text: `Backward, ${model.states.done} of ${task.total}` };
  }
  if (state.pause_next) {
    return { kind: 'paused', text: 'Pauses at the next backward' };
  }
  const said = !presenter.hides('record');
  if (state.recording) {
    return { kind: 'recording', text: 'Recording', said };
  }
  return { kind: 'off', text: state.scope === 'newest' ? 'Newest pass' : 'Not recording', said };
}
