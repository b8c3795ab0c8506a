// Cards of findings: the line to blame, then the one that suffers, since when, and what helps.

import type { ReactElement } from 'react';
import { block, oneLine } from '../protocol/text';
import type { Finding } from '../model/findings/finding';
import { KIND_NAMES, SIGNS } from '../model/findings/finding';
import { countText } from '../model/format';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';
import { Repair } from './repair';
import { SourceLink, Words } from './source_link';

/** 'since pass 4 · 37 of 40 passes' */
function whenText({ first, passes, of, partial }: Finding, all: number): string {
  if (first.pass === 0 || (of === 1 && all <= 1)) {
    return '';
  }
  const kind = partial ? 'recorded passes' : 'passes';
  const share = of > 1 ? ` · ${countText(passes)} of ${countText(of)} ${kind}` : '';
  const lasts = passes > 1;
  return `${lasts ? 'since' : 'in'} pass ${countText(first.pass)}${share}`;
}

/** Shows the moment of a finding: where it was first seen, or last if that is forgotten. */
export function showFinding(presenter: Presenter, { first, last }: Finding): void {
  const { model } = presenter;
  const { store } = model;
  const seen = store.tasks.has(first.task) ? first : last;
  if (store.tasks.has(seen.task) && model.shownTask()?.task !== seen.task) {
    model.show({ kind: 'task', task: seen.task });
    model.refresh();
  }
  if (seen.order >= 0) {
    const moment = model.axis.forward.length + seen.order + 1;
    const newest = model.target.kind === 'latest' && presenter.live;
    model.scrub(moment >= model.length && newest ? null : moment);
  }
  presenter.tab.set('node');
  if (seen.seq !== null) presenter.goTo(seen.seq);
}

export function FindingCard({ finding }: { finding: Finding }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { kind, title, detail, lines, module, advice, times, first, last, seq } = {
    ...finding,
    seq: finding.first.seq ?? finding.last.seq
  };
  const when = whenText(finding, model.store.passes);
  const old = !model.store.tasks.has(first.task);
  const kept = !old || model.store.tasks.has(last.task);
  const shown = kept || (seq !== null && model.graph.indexOf.has(seq));
  return (
    <article
      className="agv-card agv-finding"
      data-kind={kind}
      data-matters={finding.matters ? 'yes' : 'no'}
      data-solved={finding.solved ? 'yes' : 'no'}
      aria-label={KIND_NAMES[kind]}
    >
      <h3>
        <span className="agv-sign" aria-hidden="true">
          {SIGNS[kind]}
        </span>
        <Words text={title} length={300} />
        {times > 1 && (
          <span
            className="agv-times"
            title={`Seen in ${times} runs of its cell; this is the last one`}
          >
            {countText(times)}×
          </span>
        )}
      </h3>
      {(when || module) && (
        <p className="agv-when">
          {when}
          {when && module && ' · '}
          {module && <code>{oneLine(module, 80)}</code>}
        </p>
      )}
      {detail && (
        <p>
          <Words text={detail} length={400} />
        </p>
      )}
      {lines.length > 0 && (
        <ol className="agv-strip">
          {lines.map(({ site, says }, i) => (
            <li key={i}>
              <span className="agv-v" data-kind={i === 0 ? 'written' : 'saved'}>
                {i === 0 ? 'cause' : 'shows'}
              </span>
              <span>
                <SourceLink site={site} /> <Words text={says} length={200} />
              </span>
              {site.text && <code>{block(site.text, 300)}</code>}
            </li>
          ))}
        </ol>
      )}
      {advice && <Repair {...advice} />}
      {shown ? (
        <p className="agv-line">
          <button
            type="button"
            className="agv-link"
            onClick={event => {
              // The button goes with its tab; keys go on through time from here.
              const root = event.currentTarget.closest('.agv-root');
              showFinding(presenter, finding);
              root?.querySelector<HTMLElement>('.agv-graph')?.focus({ preventScroll: true });
            }}
          >
            {first.pass > 0 && model.store.passes > 1
              ? `Show it in pass ${countText((old ? last : first).pass)}`
              : 'Show it'}
          </button>
        </p>
      ) : (
        <p className="agv-quiet">Its pass was let go to keep memory bounded.</p>
      )}
    </article>
  );
}

/** A finding whose cell ran through later without it: its card, closed. */
export function SolvedFinding({ finding }: { finding: Finding }): ReactElement {
  return (
    <details className="agv-solved">
      <summary>
        <span className="agv-tag" data-state="done">
          ✓ solved
        </span>{' '}
        <Words text={finding.title} length={300} />
      </summary>
      <FindingCard finding={finding} />
    </details>
  );
}
