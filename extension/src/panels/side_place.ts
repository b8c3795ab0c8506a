// Where the side stands: at its top when it speaks of something else, otherwise where its reader
// left it. The same node in the next turn of a loop is the same subject.

import type { RefObject } from 'react';
import { useLayoutEffect, useRef } from 'react';
import type { InspectorModel } from '../model/inspector';
import type { Tab } from './presenter';

export interface Subject {
  tab: Tab;
  /** the same for the same part of another pass of the same program */
  key: string;
  /** tells apart what has the same key in one pass */
  id: number | string;
  pass: number;
}

/** What a tab speaks of. */
export function subjectOf(model: InspectorModel, tab: Tab): Subject {
  const { group, selected, store } = model;
  const task = model.shownTask();
  const pass = task?.task ?? -1;
  if (tab === 'problems') {
    const newest = store.problems[store.problems.length - 1]?.id ?? -1;
    return { tab, key: `${newest}`, id: 0, pass };
  }
  if (tab !== 'node') {
    return { tab, key: `${task?.site ?? -1}`, id: 0, pass };
  }
  if (group) {
    return { tab, key: group.key, id: group.key, pass };
  }
  if (selected === null) {
    return { tab, key: '', id: -1, pass };
  }
  const site = model.siteOf(selected);
  const place = site ? `${site.cell_id ?? site.file} ${site.execution_count} ${site.line}` : '';
  // One that is still of the pass before belongs to none: its partner is not another one.
  const shown = model.graph.indexOf.has(selected) || model.graph.leafUses.has(selected);
  const key = `${model.titleOf(selected)} ${place}`;
  return { tab, key, id: selected, pass: shown ? pass : -1 };
}

/** Whether what is said now is about something else. */
export function isOther(before: Subject, now: Subject): boolean {
  const { tab, key, id, pass } = now;
  return (
    before.tab !== tab || before.key !== key || (before.pass === pass && before.id !== id)
  );
}

/** Keeps an element that scrolls at its top for each new subject. */
export function usePlace(model: InspectorModel, tab: Tab): RefObject<HTMLDivElement> {
  const element = useRef<HTMLDivElement>(null);
  const known = useRef<Subject | null>(null);
  useLayoutEffect(() => {
    const now = subjectOf(model, tab);
    if (known.current && isOther(known.current, now) && element.current) {
      element.current.scrollTop = 0;
    }
    known.current = now;
  });
  return element;
}
