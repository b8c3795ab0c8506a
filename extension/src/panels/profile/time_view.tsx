// The Time mode of the big area: the timeline's canvas, what is chosen on it, and the sums below.

import type { ReactElement } from 'react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { oneLine } from '../../protocol/text';
import { bytesText, countText, plural } from '../../model/format';
import type { LaneKind } from '../../model/profile/groups';
import { canGroup } from '../../model/profile/groups';
import { pausedAnywhere } from '../../model/profile/pauses';
import { HUE_NAMES, lengthOf } from '../../model/profile/profile';
import { HUE_VARIABLES } from '../../draw/profile/colours';
import { TimeCanvas } from '../../draw/profile/canvas';
import { heightOf, placesOf } from '../../draw/profile/places';
import { lengthText } from '../../draw/profile/view';
import { useCell, useInspector } from '../presenter';
import { ViewSwitch } from '../view_switch';
import { Beside } from './beside';
import { Chosen } from './chosen';
import { Memory } from './memory';
import { Sums } from './sums';
import type { OpenProfile } from './timing';

const TRACE_ENDINGS = '.json,.gz,.agprof';
const FILES = "A profile, or a Chrome trace as torch's profiler writes it (.json, .json.gz)";

interface OpenButtonProps {
  label: string;
  title?: string;
  take?: (file: File) => void;
}

/** A button that opens a profile or trace from the reader's disk. */
function OpenButton({ label, title = FILES, take }: OpenButtonProps): ReactElement {
  const { timing } = useInspector();
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        className="agv-btn"
        title={title}
        onClick={() => input.current?.click()}
      >
        {label}
      </button>
      <input
        ref={input}
        type="file"
        hidden
        accept={TRACE_ENDINGS}
        aria-label={`File: ${label}`}
        onChange={event => {
          const file = event.target.files?.[0];
          if (file && take) take(file);
          else if (file) void timing.read(file, file.name);
          event.target.value = '';
        }}
      />
    </>
  );
}

export function TimeView({ wheel }: { wheel: 'always' | 'focused' }): ReactElement {
  const presenter = useInspector();
  const { timing, model } = presenter;
  const state = useCell(timing.state);
  const following = useCell(timing.following);
  useEffect(() => timing.grow());
  const open = state.kind === 'open' ? state : null;
  const running = timing.profileNumber;
  const paused = open ? pausedAnywhere(open.profile.pauses, open.profile.from, open.profile.to) : 0;
  return (
    <div className="agv-timing">
      <div className="agv-timing-head">
        <ViewSwitch />
        <span className="agv-elide">
          {open &&
            `${open.name || 'This recording'}: ${plural(open.profile.count, 'slice')}, ` +
              lengthText(open.profile.to - open.profile.from - paused)}
          {paused > 0 && `, and ${lengthText(paused)} paused`}
        </span>
        {open && <LaneSwitch open={open} />}
        {open && (open.name === '' || open.running !== null) && presenter.live && (
          <button
            type="button"
            className="agv-btn"
            aria-pressed={following}
            title="Shows what the program does as it does it (L)"
            onClick={() => timing.follow(!following)}
          >
            Follow
          </button>
        )}
        {state.kind === 'open' && <Find open={state} />}
        {state.kind === 'open' && (
          <button
            type="button"
            className="agv-btn"
            title="Show all (space)"
            onClick={() => timing.canvas?.fit(null)}
          >
            All
          </button>
        )}
        {state.kind === 'open' && (
          <OpenButton
            label="Compare…"
            title="An earlier profile: what is faster now, slower, new, gone"
            take={file => void timing.compareWith(file, file.name)}
          />
        )}
        <OpenButton label="Open…" />
        {state.kind === 'open' && state.name !== '' && model.graph.seqs.length > 0 && (
          <button type="button" className="agv-link" onClick={() => timing.backToRecording()}>
            Times of this recording
          </button>
        )}
        {running !== null && (open ? open.running !== running : state.kind === 'failed') && (
          <button type="button" className="agv-link" onClick={() => timing.takeProfile()}>
            Newest profile
          </button>
        )}
      </div>
      {state.kind === 'open' ? (
        <Timed key={state.serial} open={state} wheel={wheel} />
      ) : (
        <Nothing />
      )}
    </div>
  );
}

const LANES: { kind: LaneKind; title: string; needs: string }[] = [
  { kind: 'thread', title: 'Threads', needs: '' },
  {
    kind: 'module',
    title: 'Modules',
    needs: 'No modules here: profile with_modules=True, or record a program that has some'
  },
  { kind: 'line', title: 'Lines', needs: 'No source lines here: profile with_stack=True' }
];

/** What each track of the timeline is. */
function LaneSwitch({ open: { profile, lanes } }: { open: OpenProfile }): ReactElement {
  const { timing } = useInspector();
  const can = useMemo(() => LANES.map(({ kind }) => canGroup(profile, kind)), [profile]);
  return (
    <div className="agv-views" role="group" aria-label="A lane for each">
      {LANES.map(({ kind, title, needs }, i) => (
        <button
          key={kind}
          type="button"
          aria-pressed={lanes.kind === kind}
          disabled={!can[i]}
          title={can[i] ? `A track for each of the ${title.toLowerCase()} (G)` : needs}
          onClick={() => timing.laneBy(kind)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

function Nothing(): ReactElement {
  const { timing } = useInspector();
  const state = useCell(timing.state);
  if (state.kind === 'reading') {
    return (
      <div className="agv-timing-empty" role="status">
        <h2>Reading {state.name}</h2>
        <p>
          {state.bytes > 0
            ? `${bytesText(state.bytes)}, ${plural(state.events, 'event')}`
            : 'This takes a moment.'}
        </p>
      </div>
    );
  }
  if (state.kind === 'failed') {
    return (
      <div className="agv-timing-empty" role="alert">
        <h2>{state.name} cannot be shown</h2>
        <p>{oneLine(state.why, 600)}</p>
        <OpenButton label="Open another file" />
      </div>
    );
  }
  return (
    <div className="agv-timing-empty">
      <h2>No times yet</h2>
      <p>
        Run a cell that calls backward() while the Inspector records, or one with profile(): both
        are shown as they run. Or open a profile: a Chrome trace, as torch&apos;s profiler writes
        it, is read here without a kernel.
      </p>
      <OpenButton label="Open a profile or trace" />
    </div>
  );
}

/** Names that hold the text. */
function soughtNames(names: readonly string[], query: string): Uint8Array | null {
  const text = query.trim().toLowerCase();
  return text === ''
    ? null
    : Uint8Array.from(names, name => (name.toLowerCase().includes(text) ? 1 : 0));
}

function Find({ open }: { open: OpenProfile }): ReactElement {
  const { timing } = useInspector();
  const query = useCell(timing.query);
  const input = useRef<HTMLInputElement>(null);
  const { profile } = open;
  useEffect(() => {
    timing.focusSearch = () => {
      input.current?.focus();
      input.current?.select();
    };
  }, [timing]);
  const sought = useMemo(() => soughtNames(profile.names, query), [profile, query]);
  const count = useMemo(
    () => (sought ? profile.name.reduce((sum, name) => sum + (sought[name] ?? 0), 0) : 0),
    [profile, sought]
  );
  return (
    <div className="agv-search" role="search">
      <input
        ref={input}
        type="text"
        value={query}
        placeholder="Find slices"
        aria-label="Find slices"
        spellCheck={false}
        onChange={event => timing.query.set(event.target.value)}
        onKeyDown={event => {
          if (event.key === 'Enter' && sought && count > 0) {
            timing.nextHit(sought, event.shiftKey ? -1 : 1);
            event.preventDefault();
          } else if (event.key === 'Escape') {
            timing.query.set('');
            input.current?.blur();
          }
          event.stopPropagation();
        }}
      />
      {sought && (
        <span className="agv-found" aria-live="polite">
          {count === 0 ? 'none' : countText(count)}
        </span>
      )}
    </div>
  );
}

interface Hover {
  row: number;
  x: number;
  y: number;
}

/** Pixels below the last lane. */
const AIR = 24;

function Timed({ open, wheel }: { open: OpenProfile; wheel: string }): ReactElement {
  const presenter = useInspector();
  const { timing } = presenter;
  const { profile, lanes } = open;
  const area = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hover, setHover] = useState<Hover | null>(null);
  const shown = useRef(open);
  shown.current = open;
  const selected = useCell(timing.selected);
  const span = useCell(timing.span);
  const query = useCell(timing.query);
  const moment = useCell(timing.moment);
  const theme = useCell(presenter.theme);
  const sought = useMemo(() => soughtNames(profile.names, query), [profile, query]);

  useEffect(() => {
    const [element, host] = [canvas.current, area.current];
    if (!element || !host) {
      return undefined;
    }
    const begun = shown.current;
    const time = new TimeCanvas(element, begun.profile, begun.lanes, {
      select: row => timing.select(row),
      choose: (chosen, done) => {
        timing.drawing.set(!done);
        timing.span.set(chosen);
        // What was asked last is answered first.
        if (chosen) timing.moment.set(null);
      },
      open: row => {
        const { start, end } = shown.current.profile;
        timing.select(row);
        time.fit({ from: start[row], to: end[row] });
      },
      moment: (curve, at) => timing.moment.set({ curve, time: at }),
      over: (row, x, y) => setHover(row === null ? null : { row, x, y }),
      wheels: () => wheel === 'always' || host.contains(document.activeElement)
    });
    timing.canvas = time;
    const observer = new ResizeObserver(() => time.resize(host.clientWidth, host.clientHeight));
    observer.observe(host);
    time.resize(host.clientWidth, host.clientHeight);
    host.focus({ preventScroll: true });
    if (timing.selected.value !== null) time.reveal(timing.selected.value);
    return () => {
      observer.disconnect();
      time.dispose();
      timing.canvas = null;
    };
  }, [timing, wheel]);
  useEffect(() => {
    setHover(null);
    timing.canvas?.take(profile, lanes);
  }, [timing, profile, lanes]);
  useEffect(() => {
    timing.canvas?.show({ selected, span, sought, moment });
  }, [timing, selected, span, sought, moment]);
  useEffect(() => timing.canvas?.setPalette(), [timing, theme]);

  return (
    <>
      {profile.notices.length > 0 && (
        <div className="agv-timing-notices" role="status">
          {profile.notices.map((text, i) => (
            <div key={i}>{oneLine(text, 400)}</div>
          ))}
        </div>
      )}
      <div
        ref={area}
        className="agv-timing-area"
        style={{ maxHeight: heightOf(placesOf(profile, lanes)) + AIR }}
        role="application"
        tabIndex={0}
        data-agv-keys="time"
        onKeyDown={() => setHover(null)}
        aria-label={
          'Timeline: W and S zoom, A and D move, arrow keys go from slice to slice, ' +
          'question mark lists all keys. The table below has the same sums.'
        }
      >
        <canvas ref={canvas} aria-hidden="true" />
        {hover && <Tip open={open} hover={hover} area={area.current} />}
      </div>
      <Legend open={open} />
      <div className="agv-timing-below" tabIndex={0} role="region" aria-label="What is chosen">
        <Chosen open={open} />
        <Memory open={open} />
        <Beside open={open} />
        <Sums open={open} />
      </div>
    </>
  );
}

function Legend({ open: { profile } }: { open: OpenProfile }): ReactElement {
  const hues = useMemo(() => {
    const seen = new Uint8Array(HUE_NAMES.length);
    for (const hue of profile.hue) seen[hue] = 1;
    return HUE_NAMES.map((name, i) => ({ name, i })).filter(({ i }) => seen[i] === 1);
  }, [profile]);
  return (
    <div className="agv-timing-legend" aria-hidden="true">
      {hues.map(({ name, i }) => (
        <span key={name}>
          <i
            style={{
              background: `var(${HUE_VARIABLES[i]}-fill)`,
              borderColor: `var(${HUE_VARIABLES[i]})`
            }}
            data-hue={name}
          />
          {name}
        </span>
      ))}
    </div>
  );
}

/** What is under the pointer. */
function Tip({
  open: { profile },
  hover,
  area
}: {
  open: OpenProfile;
  hover: Hover;
  area: HTMLElement | null;
}): ReactElement {
  const { row, x, y } = hover;
  const [width, height] = [area?.clientWidth ?? 0, area?.clientHeight ?? 0];
  const side = x > width / 2 ? { right: width - x + 12 } : { left: x + 12 };
  const place = y > height / 2 ? { bottom: height - y + 14 } : { top: y + 14 };
  const note = profile.texts[profile.note[row]];
  const line = profile.texts[profile.line[row]];
  return (
    <div className="agv-timing-tip" style={{ ...side, ...place }} aria-hidden="true">
      <b>{profile.names[profile.name[row]] ?? '(no name)'}</b>
      <div>
        {lengthText(lengthOf(profile, row))}, self {lengthText(profile.own[row])}
      </div>
      {note && <div className="agv-quiet">{oneLine(note, 120)}</div>}
      {line && <div className="agv-quiet">{oneLine(line, 120)}</div>}
    </div>
  );
}
