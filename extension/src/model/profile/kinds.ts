// Kinds of our own profiler's spans, as files and answers of the kernel number them.

import { Hue } from './profile';

const [EVALUATE, NODE, USER, STEP, MODULE] = [1, 2, 3, 4, 5];
const HUES = new Map<number, Hue>([
  [EVALUATE, Hue.backward],
  [NODE, Hue.backward],
  [USER, Hue.user],
  [STEP, Hue.step],
  [MODULE, Hue.module]
]);

export function hueOfKind(kind: number): Hue {
  return HUES.get(kind) ?? Hue.forward;
}
