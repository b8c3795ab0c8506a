// Where slices stand: a track has a lane for each depth, steps are bands above all. Every lane is
// told again in coarser levels, where what is closer than a pixel is one block: so a frame paints a
// few blocks for each pixel however many slices there are.

import type { Groups, LaneKind } from '../../model/profile/groups';
import { groupsOf } from '../../model/profile/groups';
import type { Profile, Track } from '../../model/profile/profile';
import { Hue } from '../../model/profile/profile';

/** Blocks of one coarseness: what begins within `width` ns of a block's begin is a part of it. */
export interface Level {
  width: number;
  /** first block of each lane, and the end of the last */
  first: Int32Array;
  start: Float64Array;
  end: Float64Array;
  /** the longest slice in it, which gives it its colour */
  row: Int32Array;
}

export interface Lanes {
  /** what its tracks are: threads, modules, source lines */
  kind: LaneKind;
  tracks: Track[];
  /** of each lane */
  track: Int32Array;
  depth: Int32Array;
  /** where the slices of each lane begin in `rows`, and the end of the last */
  first: Int32Array;
  /** rows of the profile by lane, in order of their start */
  rows: Int32Array;
  /** first lane of each track, and the end of the last */
  ofTrack: Int32Array;
  /** rows of steps in order of their start */
  steps: Int32Array;
  /** coarser and coarser */
  levels: Level[];
  /** by row: its lane; -1 for a step */
  lane: Int32Array;
}

/** A level is kept where it has so much less than the one before. */
const WORTH = 0.7;
/** Pixels that may look like one. */
const FINE = 3;
/** Coarsest level: so many blocks in the whole profile, at most, in a lane. */
const COARSEST = 256;

/** How many slices of its own group are around each one, steps left out. */
function depths({ count, parent, hue }: Profile, { kind, of }: Groups): Int32Array {
  const depth = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    let around = parent[i];
    // What was called through another module or line stands below what called that.
    while (around >= 0 && (hue[around] === Hue.step || (kind !== 'thread' && of[around] !== of[i])))
      around = parent[around];
    depth[i] = around < 0 ? 0 : depth[around] + 1;
  }
  return depth;
}

/**
 * Each depth of a track has a lane. In lanes by module or line several threads may be in one group
 * at a time: the lanes of the second stand below those of the first.
 */
function belowOthers(profile: Profile, { of }: Groups, depth: Int32Array): void {
  const { count, hue, track, tracks } = profile;
  const deepest = new Map<number, number>();
  const key = (row: number): number => of[row] * tracks.length + track[row];
  for (let i = 0; i < count; i++) {
    const known = deepest.get(key(i)) ?? -1;
    if (hue[i] !== Hue.step && depth[i] > known) deepest.set(key(i), depth[i]);
  }
  const first = new Map<number, number>();
  let [group, at] = [-1, 0];
  for (const one of [...deepest.keys()].sort((a, b) => a - b)) {
    const its = Math.floor(one / tracks.length);
    if (its !== group) [group, at] = [its, 0];
    first.set(one, at);
    at += (deepest.get(one) ?? 0) + 1;
  }
  for (let i = 0; i < count; i++) depth[i] += first.get(key(i)) ?? 0;
}

export function placeLanes(profile: Profile, kind: LaneKind = 'thread'): Lanes {
  const groups = groupsOf(profile, kind);
  const { count, hue } = profile;
  const { of: track, tracks } = groups;
  const lane = new Int32Array(count);
  const depth = depths(profile, groups);
  if (kind !== 'thread' && profile.tracks.length > 1) belowOthers(profile, groups, depth);
  const deepest = new Int32Array(tracks.length).fill(-1);
  const steps: number[] = [];
  for (let i = 0; i < count; i++) {
    if (hue[i] === Hue.step) steps.push(i);
    else if (depth[i] > deepest[track[i]]) deepest[track[i]] = depth[i];
  }
  const ofTrack = new Int32Array(tracks.length + 1);
  for (let t = 0; t < tracks.length; t++) ofTrack[t + 1] = ofTrack[t] + deepest[t] + 1;
  const lanes = ofTrack[tracks.length];
  const first = new Int32Array(lanes + 1);
  for (let i = 0; i < count; i++) {
    lane[i] = hue[i] === Hue.step ? -1 : ofTrack[track[i]] + depth[i];
    if (lane[i] >= 0) first[lane[i] + 1]++;
  }
  for (let l = 0; l < lanes; l++) first[l + 1] += first[l];
  const rows = new Int32Array(first[lanes]);
  const next = first.slice();
  for (let i = 0; i < count; i++) {
    if (lane[i] >= 0) rows[next[lane[i]]++] = i;
  }
  const laneTrack = new Int32Array(lanes);
  const laneDepth = new Int32Array(lanes);
  for (let t = 0; t < tracks.length; t++) {
    for (let l = ofTrack[t]; l < ofTrack[t + 1]; l++) {
      laneTrack[l] = t;
      laneDepth[l] = l - ofTrack[t];
    }
  }
  steps.sort((a, b) => profile.start[a] - profile.start[b]);
  const placed = { kind, tracks, track: laneTrack, depth: laneDepth, first, rows, ofTrack, lane };
  return { ...placed, steps: Int32Array.from(steps), levels: levelsOf(profile, first, rows) };
}

/** Room for the blocks of a level while it is made, and the length of each one's longest slice. */
interface Room {
  start: Float64Array;
  end: Float64Array;
  row: Int32Array;
  longest: Float64Array;
}

/** Merges what is finer; the result has at most two blocks for each width of time. */
function coarser(profile: Profile, finer: Level, width: number, room: Room): Level {
  const lanes = finer.first.length - 1;
  const { start, end, row, longest } = room;
  const first = new Int32Array(lanes + 1);
  let made = 0;
  for (let lane = 0; lane < lanes; lane++) {
    first[lane] = made;
    for (let i = finer.first[lane]; i < finer.first[lane + 1]; i++) {
      const block = made - 1;
      const slice = finer.row[i];
      const length = profile.end[slice] - profile.start[slice];
      if (block >= first[lane] && finer.end[i] - start[block] <= width) {
        end[block] = finer.end[i];
        if (length > longest[block]) {
          longest[block] = length;
          row[block] = slice;
        }
      } else {
        start[made] = finer.start[i];
        end[made] = finer.end[i];
        longest[made] = length;
        row[made++] = slice;
      }
    }
  }
  first[lanes] = made;
  return {
    width,
    first,
    start: start.slice(0, made),
    end: end.slice(0, made),
    row: row.slice(0, made)
  };
}

/**
 * The first of the widths unit, 2 unit, 4 unit ... with which a level may be worth it: a block that
 * takes another in is at least as wide as the two together.
 */
function firstWorth({ first, start, end }: Level, unit: number): number {
  const fits = new Int32Array(64);
  let pairs = 0;
  for (let lane = 0; lane + 1 < first.length; lane++) {
    for (let i = first[lane] + 1; i < first[lane + 1]; i++) {
      const units = (end[i] - start[i - 1]) / unit;
      // Doublings until both fit.
      if (units <= 1) fits[0]++;
      else if (units <= 2 ** 31) fits[32 - Math.clz32(Math.ceil(units) - 1)]++;
      pairs++;
    }
  }
  const wanted = (1 - WORTH) * end.length;
  let [fitting, doublings] = [fits[0], 0];
  while (fitting < wanted && doublings < fits.length - 1) fitting += fits[++doublings];
  return pairs < wanted ? Infinity : unit * 2 ** doublings;
}

function levelsOf(profile: Profile, first: Int32Array, rows: Int32Array): Level[] {
  const count = rows.length;
  const [start, end] = [new Float64Array(count), new Float64Array(count)];
  for (let i = 0; i < count; i++) {
    start[i] = profile.start[rows[i]];
    end[i] = profile.end[rows[i]];
  }
  const levels: Level[] = [{ width: 0, first, start, end, row: rows }];
  const span = profile.to - profile.from;
  const room = {
    start: new Float64Array(count),
    end: new Float64Array(count),
    row: new Int32Array(count),
    longest: new Float64Array(count)
  };
  // From about one slice for each width on there is something to merge.
  const unit = span / 2 ** Math.ceil(Math.log2(Math.max(1, count)) + 3);
  for (let width = firstWorth(levels[0], unit); width <= span / COARSEST; width *= 2) {
    const finer = levels[levels.length - 1];
    if (finer.row.length < COARSEST) break;
    const level = coarser(profile, finer, width, room);
    if (level.row.length <= WORTH * finer.row.length) levels.push(level);
  }
  return levels;
}

/** The coarsest level whose blocks are no wider than a few pixels. */
export function levelFor({ levels }: Lanes, perPixel: number): Level {
  let found = levels[0];
  for (const level of levels) {
    if (level.width <= FINE * perPixel) found = level;
  }
  return found;
}

/** Index of the first block in [from, to) whose end is after a time. */
export function firstAfter(end: Float64Array, from: number, to: number, time: number): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

export function buffersOfLanes(lanes: Lanes): ArrayBuffer[] {
  const { track, depth, first, rows, ofTrack, steps, lane, levels } = lanes;
  const all = levels.flatMap(level => [level.first, level.start, level.end, level.row]);
  const arrays = [track, depth, first, rows, ofTrack, steps, lane, ...all];
  return [...new Set(arrays.map(array => array.buffer as ArrayBuffer))];
}
