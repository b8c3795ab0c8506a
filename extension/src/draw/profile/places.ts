// Where things stand on the timeline's canvas from top to bottom, in CSS pixels. Pure.

import type { Profile } from '../../model/profile/profile';
import type { Lanes } from '../../layout/profile/lanes';

export const OVERVIEW = 26;
export const RULER = 24;
export const STEP_BAND = 18;
export const CURVE = 46;
export const LANE = 19;
export const HEAD = 20;
const GAP = 6;

export interface Places {
  /** everything above the tracks stays when they scroll */
  steps: number;
  curves: number;
  tracks: number;
  /** tops of tracks (their heads) below `tracks`, unscrolled, and the end of the last */
  top: Float64Array;
}

export function placesOf(profile: Profile, lanes: Lanes): Places {
  const steps = OVERVIEW + RULER;
  const curves = steps + (lanes.steps.length > 0 ? STEP_BAND : 0);
  const tracks = curves + CURVE * profile.memory.length;
  const top = new Float64Array(lanes.tracks.length + 1);
  for (let t = 0; t < lanes.tracks.length; t++) {
    const count = lanes.ofTrack[t + 1] - lanes.ofTrack[t];
    // A track that has nothing but steps, or nothing at all, has no place.
    top[t + 1] = top[t] + (count > 0 ? HEAD + count * LANE + GAP : 0);
  }
  return { steps, curves, tracks, top };
}

/** Of everything, with nothing scrolled. */
export function heightOf({ tracks, top }: Places): number {
  return tracks + top[top.length - 1];
}

/** Top of a lane below the tracks' top, unscrolled. */
export function topOfLane({ top }: Places, lanes: Lanes, lane: number): number {
  const track = lanes.track[lane];
  return top[track] + HEAD + (lane - lanes.ofTrack[track]) * LANE;
}

/** The lane at a height below the tracks' top, unscrolled; -1 between them. */
export function laneAt({ top }: Places, lanes: Lanes, y: number): number {
  for (let t = 0; t + 1 < top.length; t++) {
    if (y >= top[t] && y < top[t + 1]) {
      const lane = lanes.ofTrack[t] + Math.floor((y - top[t] - HEAD) / LANE);
      return y >= top[t] + HEAD && lane < lanes.ofTrack[t + 1] ? lane : -1;
    }
  }
  return -1;
}
