// Whose passes these are, what is going on where no button says it, the pin and the keys.

import type { ReactElement } from 'react';
import type { Cell } from '../protocol/cell';
import { oneLine } from '../protocol/text';
import { plural } from '../model/format';
import { Icon } from './icons';
import { useCell, useInspector } from './presenter';
import { statusOf } from './status';

/** 'graph of loss, 7 nodes', the name of a notebook, a recording or a lesson. */
function Title(): ReactElement {
  const presenter = useInspector();
  const { controller, model, teaching } = presenter;
  const comparing = useCell(presenter.comparing);
  const { kept } = controller;
  const offline = model.status.kind === 'offline';
  const title = offline ? teaching.lesson.title : '';
  const variables = kept?.of;
  if (comparing && offline && !title) {
    const { a, b } = comparing.model;
    const said = `${a.source.title} and ${b.source.title}`;
    return (
      <h2 className="agv-title agv-elide" title={oneLine(said, 300)}>
        {oneLine(said, 160)}
      </h2>
    );
  }
  if (!title && variables && !kept.name) {
    const nodes = plural(model.graph.seqs.length, 'node');
    return (
      <h2 className="agv-title agv-elide" title={oneLine(variables.join(', '), 300)}>
        {variables.length > 0 ? (
          <>
            graph of <code>{oneLine(variables.join(', '), 80)}</code>, {nodes}
          </>
        ) : (
          `graph of ${nodes}`
        )}
      </h2>
    );
  }
  const subject = title || kept?.name || model.status.subject || 'Inspector';
  return (
    <h2 className="agv-title agv-elide" title={oneLine(subject, 300)}>
      {oneLine(subject, 120)}
    </h2>
  );
}

/** Who made a lesson, and when; the name of what is recorded beside the notebook's. */
function More(): ReactElement | null {
  const { model, teaching } = useInspector();
  const { title, author, date } = teaching.lesson;
  const own = model.status.kind === 'offline' ? '' : title;
  const said = [model.store.state.name, own, author, date].filter(Boolean).join(' · ');
  return said ? (
    <span className="agv-title-more agv-elide" title={oneLine(said, 300)}>
      {oneLine(said, 200)}
    </span>
  ) : null;
}

function Pin({ pinned }: { pinned: Cell<boolean> }): ReactElement {
  const on = useCell(pinned);
  return (
    <button
      type="button"
      className="agv-quiet-btn"
      aria-pressed={on}
      aria-label="Stay with this notebook"
      title={
        on
          ? 'Stays with this notebook: press to follow the active one'
          : 'Follows the active notebook: press to stay with this one'
      }
      onClick={() => pinned.set(!on)}
    >
      <Icon name="pin" />
    </button>
  );
}

export function Header(): ReactElement {
  const presenter = useInspector();
  const { pinned } = presenter.controller;
  const now = statusOf(presenter);
  return (
    <div className="agv-header">
      <Title />
      <More />
      <span
        className={now.said ? 'agv-pill agv-hidden' : 'agv-pill'}
        data-kind={now.kind}
        role="status"
        title={now.text}
      >
        <span>{now.text}</span>
      </span>
      <div className="agv-header-end">
        {pinned && <Pin pinned={pinned} />}
        <button
          type="button"
          className="agv-quiet-btn"
          aria-label="Keys"
          title="All keys (?)"
          hidden={presenter.hides('keys')}
          onClick={() => presenter.helpOpen.set(true)}
        >
          ?
        </button>
      </div>
    </div>
  );
}
