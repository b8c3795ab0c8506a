// Findings of all passes so far. Each pass is looked at once, when it has ended; what is kept of it
// is small and stays when its nodes are forgotten. Pure.

import type { Store, Task } from '../store';
import type { Finder } from './finders';
import { FINDERS } from './finders';
import type { Finding, Found, Seen } from './finding';
import { KINDS, bitOf } from './finding';
import { Pass, placeOf } from './pass';

/** Passes of which a mark is kept, the newest; findings; norms of one line. */
export const MOST_PASSES = 20_000;
const MOST_FINDINGS = 100;
const MOST_NORMS = 31;
/** Variables of one run that are remembered to have got a gradient. */
const MOST_NAMES = 10_000;

/** What is kept of a pass. */
export interface Mark {
  task: number;
  number: number;
  ms: number;
  /** 2-norm of the gradients of all leaves, NaN where it was not finite */
  norm: number;
  /** kinds of findings that matter */
  kinds: number;
}

/** Passes of one line in one run of its cell. */
class Strand {
  passes = 0;
  /** some were not recorded */
  partial = false;
  norms: number[] = [];
  peak = 0;
  readonly sightings = new Map<string, Sighting>();
}

/** The newest run of a cell, or of a file. */
class Run extends Strand {
  readonly lines = new Map<string, Strand>();
  /** variables that got a gradient in some pass, and the memory of these */
  readonly reached = new Set<string>();
  readonly fed = new Set<number>();

  constructor(readonly count: number | null) {
    super();
  }
}

/** One thing in one strand. */
interface Sighting {
  found: Found;
  first: Seen;
  /** which pass of the strand had it last, and how many had it */
  last: number;
  passes: number;
  inARow: number;
  /** the first pass of the strand in which it was seen */
  since: number;
  /** marks of the passes in a row, until it is certain */
  marks: Mark[];
  told: boolean;
}

interface Told {
  finding: Finding;
  finder: Finder;
  place: string;
  run: Run;
  strand: Strand;
  sighting: Sighting;
}

/** Whether all that it would starve got a gradient in some pass of the run. */
function isFed(
  { starving, without = [], called = '' }: Pick<Found, 'starving' | 'without' | 'called'>,
  { reached, fed }: Run
): boolean {
  if (starving) {
    return starving.every(storage => fed.has(storage));
  }
  if (without.length > 0 || called === '') {
    return without.length > 0 && without.every(name => reached.has(name));
  }
  // Its parameters are called after it: `make.0.weight`, or `gan.make.0.weight` for `self.make`.
  return [...reached].some(name => `.${name}`.includes(`.${called}.`));
}

export class Ledger {
  /** the newest marks, oldest first */
  marks: Mark[] = [];
  /** grows with every pass */
  version = 0;
  private epoch = '';
  /** the pass before was not watched */
  private skipped = false;
  private readonly markOf = new Map<number, Mark>();
  private readonly told = new Map<string, Told>();
  private readonly runs = new Map<string, Run>();

  private reset(): void {
    this.marks = [];
    this.markOf.clear();
    this.told.clear();
    this.runs.clear();
    this.skipped = false;
    this.version++;
  }

  mark(task: number): Mark | null {
    return this.markOf.get(task) ?? null;
  }

  /** Takes down a pass that has ended. ms: how long it took. */
  take(store: Store, task: Task, ms: number): void {
    const epoch = `${store.session} ${store.epoch}`;
    if (epoch !== this.epoch) this.reset();
    this.epoch = epoch;
    const pass = new Pass(store, task);
    const mark: Mark = { task: task.task, number: task.number, ms, norm: pass.norm, kinds: 0 };
    if (task.ended === 'in error') mark.kinds |= bitOf('failed');
    this.marks.push(mark);
    this.markOf.set(task.task, mark);
    if (this.marks.length > MOST_PASSES) {
      for (const old of this.marks.splice(0, MOST_PASSES / 10)) this.markOf.delete(old.task);
    }
    this.version++;
    if (!store.watched(task.task)) {
      mark.norm = -1;
      this.skipped = true;
      return;
    }
    const skipped = task.missed > 0 || this.skipped;
    this.skipped = false;

    const { site } = pass;
    const place = placeOf(site);
    const count = site?.execution_count ?? null;
    let run = this.runs.get(place);
    if (!run || run.count !== count) {
      run = new Run(count);
      this.runs.set(place, run);
    }
    const name = `${site?.line ?? 0} ${site?.col ?? 0}`;
    const line = run.lines.get(name) ?? new Strand();
    run.lines.set(name, line);
    for (const strand of [run, line]) {
      strand.passes++;
      strand.partial ||= skipped && strand.passes > 1;
    }
    this.reach(pass, run);
    for (const finder of FINDERS) {
      for (const found of finder.find(pass, { ...line, fed: run.fed })) {
        if (isFed(found, run)) continue;
        this.see(found, finder, found.kind === 'nonfinite' ? run : line, run, place, mark);
      }
    }
    this.settle(run);
    if (line !== run) this.settle(line);
    if (Number.isFinite(mark.norm)) {
      line.norms.push(mark.norm);
      line.peak = Math.max(line.peak, mark.norm);
      if (line.norms.length > MOST_NORMS) line.norms.shift();
    }
  }

  /** What gets a gradient in one pass of a run may be cut off in another, as two networks are. */
  private reach(pass: Pass, run: Run): void {
    const { store } = pass;
    const size = (): number => run.reached.size + run.fed.size;
    const before = size();
    for (const seq of pass.orderOf.keys()) {
      const name = run.reached.size < MOST_NAMES ? store.label(seq) : '';
      if (name !== '') run.reached.add(name);
      const leaf = run.fed.size < MOST_NAMES ? store.leafRow.get(seq) : -1;
      const storage = leaf < 0 ? 0 : store.leaves.at.storage[leaf];
      if (storage !== 0) run.fed.add(storage);
    }
    if (size() === before) {
      return;
    }
    for (const [key, { finding, run: of, strand }] of this.told) {
      if (of !== run || !isFed(finding, run)) continue;
      this.told.delete(key);
      strand.sightings.delete(key);
      for (const mark of this.marks) {
        if (mark.number >= finding.first.pass) mark.kinds &= ~bitOf(finding.kind);
      }
    }
  }

  private see(
    found: Found,
    finder: Finder,
    strand: Strand,
    run: Run,
    place: string,
    mark: Mark
  ): void {
    const now = strand.passes;
    let key = found.key;
    if (found.kind === 'nonfinite') {
      // What comes of a NaN is no new finding: the pass before had one.
      const going = [...strand.sightings.values()].find(
        one => one.found.kind === 'nonfinite' && one.last >= now - 1
      );
      key = going?.found.key ?? key;
    }
    const seen: Seen = { pass: mark.number, task: mark.task, seq: found.seq, order: found.order };
    const known = strand.sightings.get(key);
    const sighting = known ?? {
      ...{ found, first: seen, last: 0, passes: 0, inARow: 0, since: now, marks: [], told: false }
    };
    if (sighting.last === now) {
      return;
    }
    strand.sightings.set(key, sighting);
    // Of parameters that were left out together some have got a gradient since.
    const { starving } = sighting.found;
    if (found.starving && starving && found.starving.length < starving.length)
      sighting.found = found;
    sighting.inARow = sighting.last === now - 1 ? sighting.inARow + 1 : 1;
    if (sighting.inARow === 1) {
      sighting.marks = [];
      if (!sighting.told) {
        sighting.first = seen;
        sighting.since = now;
        sighting.passes = 0;
      }
    }
    sighting.last = now;
    sighting.passes++;
    sighting.marks.push(mark);
    if (!sighting.told && sighting.inARow < Math.min(finder.inARow, now)) {
      return;
    }
    if (found.matters) for (const each of sighting.marks) each.kinds |= bitOf(found.kind);
    const certain = sighting.inARow >= finder.inARow;
    if (certain) {
      sighting.told = true;
      sighting.marks = [];
    }
    const before = this.told.get(key);
    const times = before === undefined ? 1 : before.finding.times + (before.run === run ? 0 : 1);
    // The words are of the first time in this run; later passes may only show what came of it.
    const words = sighting.found;
    const finding: Finding = {
      ...words,
      key,
      first: sighting.first,
      last: seen,
      passes: sighting.passes,
      of: strand.passes,
      partial: strand.partial,
      times,
      solved: false
    };
    this.told.delete(key);
    this.told.set(key, { finding, finder, place, run, strand, sighting });
    this.bound();
  }

  /** What was told of a short run, and is not in its next pass, was said too early. */
  private settle(strand: Strand): void {
    for (const [key, sighting] of strand.sightings) {
      const told = this.told.get(key);
      const own = told?.sighting === sighting;
      if (own) Object.assign(told.finding, { of: strand.passes, partial: strand.partial });
      // What begins at zero, as the last layer of a block may, opens with the first update.
      const opened = sighting.found.kind === 'zero' && sighting.since === 1;
      if ((sighting.told && !opened) || sighting.last === strand.passes) {
        continue;
      }
      for (const mark of sighting.marks) mark.kinds &= ~bitOf(sighting.found.kind);
      sighting.marks = [];
      if (own) this.told.delete(key);
      strand.sightings.delete(key);
    }
  }

  private bound(): void {
    if (this.told.size <= MOST_FINDINGS) {
      return;
    }
    const all = [...this.told.entries()];
    const [oldest] = all.find(([, { finding }]) => !finding.matters) ?? all[0];
    this.told.delete(oldest);
  }

  /**
   * All findings, the gravest first, of those the one seen first. idle: no cell runs, so that no
   * more passes of a run are to come.
   */
  list(idle: boolean): Finding[] {
    const found = [...this.told.values()].map(({ finding, finder, place, run, sighting }) => {
      const newest = this.runs.get(place);
      const again = newest !== undefined && newest !== run && newest.passes > 0;
      // A run that has come as far as the one before had when it was seen, and did not see it.
      const solved = again && (idle || newest.passes >= sighting.since + finder.inARow - 1);
      return { ...finding, solved };
    });
    const rank = ({ kind, matters }: Finding): number =>
      KINDS.indexOf(kind) + (matters ? 0 : KINDS.length);
    return found.sort((a, b) => rank(a) - rank(b) || a.first.pass - b.first.pass);
  }
}

/** What is found in one pass by itself: of one that has not ended yet. */
export function findingsOfPass(store: Store, task: Task): Finding[] {
  const pass = new Pass(store, task);
  const all = FINDERS.flatMap(({ find }) => find(pass, { norms: [], peak: 0, fed: new Set() }));
  return all.map(found => onceSeen(found, task));
}

/** A finding that was seen in one pass. */
export function onceSeen(found: Found, task: Task | null): Finding {
  const { seq, order } = found;
  const seen: Seen = { pass: task?.number ?? 0, task: task?.task ?? -1, seq, order };
  const once = { passes: 1, of: 1, partial: false, times: 1, solved: false };
  return { ...found, ...once, first: seen, last: seen };
}
