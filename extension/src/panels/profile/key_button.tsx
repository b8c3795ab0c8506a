// What a row of a table stands for: a name that is looked for, or a module or line with its slice.

import type { ReactElement, ReactNode } from 'react';
import type { LaneKind } from '../../model/profile/groups';
import { useInspector } from '../presenter';

export const KEY_NAMES: Record<LaneKind, string> = {
  thread: 'name',
  module: 'module',
  line: 'line'
};
export const KEY_TITLES: Record<LaneKind, string> = {
  thread: 'Name',
  module: 'Module',
  line: 'Line'
};

interface Props {
  kind: LaneKind;
  name: string;
  /** its longest slice, -1: none */
  row: number;
  children?: ReactNode;
}

export function KeyButton({ kind, name, row, children }: Props): ReactElement {
  const { timing } = useInspector();
  const sought = kind === 'thread';
  if (!sought && row < 0) return <span title={name}>{name}</span>;
  return (
    <button
      type="button"
      className="agv-link"
      title={sought ? `Find ${name}` : `Go to the longest slice of ${name}`}
      onClick={() => (sought ? timing.query.set(name) : timing.select(row, true))}
    >
      {children}
      {name}
    </button>
  );
}
