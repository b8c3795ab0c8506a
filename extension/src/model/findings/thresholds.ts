// What counts as vanishing, exploding, dead, accumulating: docs/guide/findings.md has the reasons.

/** Weights of a pass from which on its layers are compared. */
export const LEAST_LAYERS = 4;
/** A vanishing gradient: of the third of the layers farthest from the loss none has so much of the
 * largest gradient (per element) of the third next to it. */
export const VANISHING_SHARE = 1e-4;
/** An exploding one: the smallest of the far third is so many times the largest of the near. */
export const EXPLODING_TIMES = 1e4;
/** A gradient that exploded between passes: so many times the median of the run's passes before. */
export const SPIKE_TIMES = 1e4;
/** Passes before it from which that median is taken. */
export const SPIKE_PASSES = 5;
/** An infinity comes of growth where the last gradient before it was so many times the first. */
export const GROWN = 10;
/** Passes in a row in which something that may happen once has to be seen, or all of a run. */
export const PERSISTENT = 3;
/** Updates that a gradient survived: one is left over in a loop that zeroes before its step. */
export const UPDATES = 3;
