// Which swim-lane a slice stands in: that of its thread, of the module that made it, or of the
// source line. What runs backward stands where its op does. Pure, linear in slices.

import { oneLine } from '../../protocol/text';
import { countText } from '../format';
import type { Profile, Track } from './profile';
import { Hue } from './profile';

export const LANE_KINDS = ['thread', 'module', 'line'] as const;
export type LaneKind = (typeof LANE_KINDS)[number];

export interface Groups {
  kind: LaneKind;
  /** by slice */
  of: Int32Array;
  tracks: Track[];
}

/** Beyond these the rest is one group. */
const MOST = 200;
const MODULE = 'nn.Module: ';

export function groupsOf(profile: Profile, kind: LaneKind): Groups {
  if (kind === 'thread') {
    return { kind, of: profile.track, tracks: profile.tracks };
  }
  const { of, keys } = belonging(profile, kind);
  return largest(profile, kind, of, keys);
}

/** The module, or the line, that each slice belongs to. */
export function belonging(profile: Profile, kind: 'module' | 'line'): Belonging {
  const own = kind === 'module' ? modulePaths(profile) : linePaths(profile);
  const { count, hue, parent, forward } = profile;
  // An outer slice stands first; an op before what of it runs backward, in time, not in row.
  const at = own.of;
  const inherits = (row: number): number => (parent[row] < 0 ? -1 : at[parent[row]]);
  for (let i = 0; i < count; i++) if (at[i] < 0) at[i] = inherits(i);
  for (let i = 0; i < count; i++) {
    if (forward[i] >= 0 && at[forward[i]] >= 0) at[i] = at[forward[i]];
    else if (hue[i] === Hue.backward && parent[i] >= 0 && hue[parent[i]] === Hue.backward) {
      // What a node calls has the line of `backward()` in the file.
      at[i] = at[parent[i]];
    }
  }
  return own;
}

export interface Belonging {
  /** by slice: row of `keys`, -1: none is known */
  of: Int32Array;
  keys: string[];
}

function linePaths({ count, hue, line, texts }: Profile): Belonging {
  const rows = new Map<number, number>();
  const keys: string[] = [];
  const of = new Int32Array(count).fill(-1);
  for (let i = 0; i < count; i++) {
    // A step has the line that ended the one before.
    if (line[i] < 0 || !texts[line[i]] || hue[i] === Hue.step) continue;
    let at = rows.get(line[i]);
    if (at === undefined) {
      rows.set(line[i], (at = keys.length));
      keys.push(texts[line[i]]);
    }
    of[i] = at;
  }
  return { of, keys };
}

function modulePaths(profile: Profile): Belonging {
  const { count, hue, name, names, parent, modules, texts } = profile;
  const of = new Int32Array(count).fill(-1);
  const keys: string[] = [];
  const known = new Map<string, number>();
  const row = (path: string): number => {
    let at = known.get(path);
    if (at === undefined) {
      known.set(path, (at = keys.length));
      keys.push(path);
    }
    return at;
  };
  if (modules) {
    for (let i = 0; i < count; i++) {
      if (modules[i] >= 0) of[i] = row(texts[modules[i]]);
    }
    return { of, keys };
  }
  /** by path around and name: what is put together once */
  const inside = new Map<number, number>();
  for (let i = 0; i < count; i++) {
    const around = parent[i] < 0 ? -1 : of[parent[i]];
    if (hue[i] !== Hue.module) {
      of[i] = around;
      continue;
    }
    const key = (around + 1) * names.length + name[i];
    let at = inside.get(key);
    if (at === undefined) {
      const text = names[name[i]] ?? '';
      const short = text.startsWith(MODULE) ? text.slice(MODULE.length) : text;
      at = row(around < 0 ? short : oneLine(`${keys[around]}.${short}`, 300));
      inside.set(key, at);
    }
    of[i] = at;
  }
  return { of, keys };
}

/** The groups in which most was done first; the smallest and what has none are one each, last. */
function largest(profile: Profile, kind: LaneKind, at: Int32Array, keys: string[]): Groups {
  const { count, own } = profile;
  const busy = new Float64Array(keys.length);
  const rows = new Int32Array(keys.length);
  let none = 0;
  for (let i = 0; i < count; i++) {
    if (at[i] < 0) {
      if (profile.hue[i] !== Hue.step) none++;
    } else {
      busy[at[i]] += own[i];
      rows[at[i]]++;
    }
  }
  const order = keys
    .map((_, key) => key)
    .filter(key => rows[key] > 0)
    .sort((a, b) => busy[b] - busy[a] || a - b);
  const place = new Int32Array(keys.length).fill(MOST);
  order.slice(0, MOST).forEach((key, i) => (place[key] = i));
  const tracks = order.slice(0, MOST).map(key => ({ name: keys[key], process: '' }));
  const more = order.length - tracks.length;
  if (more > 0) tracks.push({ name: `${countText(more)} more ${kind}s`, process: '' });
  if (none > 0 || tracks.length === 0) {
    tracks.push({ name: kind === 'module' ? 'outside of modules' : 'no line known', process: '' });
  }
  const last = tracks.length - 1;
  return { kind, of: Int32Array.from(at, key => (key < 0 ? last : place[key])), tracks };
}

/** Whether there is anything to stand by. */
export function canGroup({ line, hue, modules }: Profile, kind: LaneKind): boolean {
  if (kind === 'thread') return true;
  if (kind === 'line') return line.some(row => row >= 0);
  return modules !== null || hue.includes(Hue.module);
}
