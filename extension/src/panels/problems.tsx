// Cards for in-place mistakes: what happened, who saved, who wrote since, and the repair beside it;
// and the findings of all passes.

import type { ReactElement } from 'react';
import type { Problem, Site } from '../protocol/schema';
import { block, oneLine } from '../protocol/text';
import { moduleOf } from '../model/findings/pass';
import { countText, plural } from '../model/format';
import { FindingCard, SolvedFinding } from './findings';
import { useCell, useInspector } from './presenter';
import { Repair } from './repair';
import { SourceLink, Words } from './source_link';

export function Problems(): ReactElement {
  const { model } = useInspector();
  const open = model.openProblems.reverse();
  const solved = model.store.problems.filter(problem => problem.solved).reverse();
  const { findings } = model;
  const grave = findings.filter(({ matters, solved }) => matters && !solved);
  const others = findings.filter(({ matters, solved }) => !matters && !solved);
  const mended = findings.filter(({ solved }) => solved);
  return (
    <>
      {open.map(problem => (
        <Card key={problem.id} problem={problem} />
      ))}
      {grave.map(finding => (
        <FindingCard key={finding.key} finding={finding} />
      ))}
      {open.length + grave.length === 0 && (
        <p className="agv-quiet" style={{ margin: 0 }}>
          {solved.length + mended.length > 0
            ? 'No problems any more.'
            : 'No problems. In-place writes that break a backward pass, and gradients that are ' +
              'NaN, vanish, explode or stay away, are explained here with lines and a repair.'}
        </p>
      )}
      {others.length > 0 && <div className="agv-sec">Worth a look</div>}
      {others.map(finding => (
        <FindingCard key={finding.key} finding={finding} />
      ))}
      {solved.map(problem => (
        <Solved key={problem.id} problem={problem} />
      ))}
      {mended.map(finding => (
        <SolvedFinding key={finding.key} finding={finding} />
      ))}
    </>
  );
}

/** A problem whose cell ran through later: its card, closed. */
function Solved({ problem }: { problem: Problem }): ReactElement {
  return (
    <details className="agv-solved">
      <summary>
        <span className="agv-tag" data-state="done">
          ✓ solved
        </span>{' '}
        <Words text={problem.title} length={400} />
      </summary>
      <Card problem={problem} />
    </details>
  );
}

function Card({ problem }: { problem: Problem }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { node_seq: seq, repair, times = 1 } = problem;
  const shown = seq !== null && model.graph.indexOf.has(seq);
  const { name: module, exact } =
    seq === null ? { name: '', exact: true } : moduleOf(model.store, seq);
  const near = !exact;
  useCell(presenter.problem);
  const marked = presenter.shownProblem()?.id === problem.id;
  const mark = (): void => {
    presenter.problem.set(problem.id);
  };
  return (
    <article
      className="agv-card"
      data-solved={problem.solved ? 'yes' : 'no'}
      data-marked={marked ? 'yes' : 'no'}
      onClick={mark}
    >
      <h3>
        <Words text={problem.title} length={400} />
        {times > 1 && (
          <span className="agv-times" title={`It occurred ${times} times; this is the last one`}>
            {countText(times)}×
          </span>
        )}
      </h3>
      {module && (
        <p className="agv-when">
          {near ? 'next to ' : ''}
          <code>{oneLine(module, 80)}</code>
        </p>
      )}
      {problem.detail && (
        <p>
          <Words text={problem.detail} />
        </p>
      )}
      <Strip problem={problem} />
      <Aliases problem={problem} />
      {repair && (
        <Repair text={repair.text} code={repair.code}>
          {repair.edit && presenter.controller.tryOut && (
            <button
              type="button"
              className="agv-btn"
              data-primary="yes"
              title="Puts the changed cell below this one; nothing runs"
              onClick={() => void presenter.tryOut(problem)}
            >
              Try it
            </button>
          )}
        </Repair>
      )}
      {(shown || problem.where) && (
        <p className="agv-line">
          {problem.where && (
            <>
              {problem.kind === 'silent' ? 'Used by the backward at' : 'Failed at'}{' '}
              <SourceLink site={problem.where} />.{' '}
            </>
          )}
          {shown && seq !== null && (
            <button
              type="button"
              className="agv-link"
              onClick={() => {
                presenter.tab.set('node');
                presenter.goTo(seq);
              }}
            >
              Show {oneLine(problem.node_name || 'the node', 60)}
            </button>
          )}
        </p>
      )}
      {problem.text && (
        <details>
          <summary>Full message</summary>
          <pre>{block(problem.text, 8000)}</pre>
        </details>
      )}
    </article>
  );
}

/** Other names of the same memory, and for a freed graph who keeps it and what freed it. */
function Aliases({ problem }: { problem: Problem }): ReactElement | null {
  const { aliases = [], holders = [], first, made } = problem;
  if (aliases.length + holders.length === 0 && !first && !made) {
    return null;
  }
  return (
    <ul className="agv-aliases">
      {made && (
        <li>
          view made at <SourceLink site={made} />
        </li>
      )}
      {first && (
        <li>
          freed by the backward at <SourceLink site={first} />
        </li>
      )}
      {aliases.length > 0 && problem.tensor.name && (
        <li>
          <code>{oneLine(problem.tensor.name, 60)}</code>
        </li>
      )}
      {aliases.map(({ name, how }) => (
        <li key={name} data-chain="yes">
          <code>{oneLine(name, 60)}</code> <Words text={how} length={120} />
        </li>
      ))}
      {holders.length > 0 && (
        <li>
          the graph is kept by{' '}
          {holders.slice(0, 4).map((name, i) => (
            <span key={name}>
              {i > 0 && ', '}
              <code>{oneLine(name, 60)}</code>
            </span>
          ))}
        </li>
      )}
    </ul>
  );
}

/** Versions from the save to now, each with the line that made it. */
function Strip({ problem }: { problem: Problem }): ReactElement | null {
  const { saved, writes, more_writes: more } = problem;
  if (!saved && writes.length === 0) {
    return null;
  }
  const last = writes.length - 1;
  return (
    <ol className="agv-strip">
      {saved && <Version kind="saved" version={saved.version} site={saved.site} word="saved" />}
      {writes.map((write, i) => (
        <WriteItem key={i} before={i === last && more > 0 ? more : 0}>
          <Version
            kind="written"
            version={write.version}
            site={write.site}
            word={write.op ? `wrote (${oneLine(write.op, 40)})` : 'wrote'}
          />
        </WriteItem>
      ))}
    </ol>
  );
}

function WriteItem({ before, children }: { before: number; children: ReactElement }): ReactElement {
  return (
    <>
      {before > 0 && (
        <li>
          <span className="agv-v">…</span>
          <span>{plural(before, 'more write')}</span>
        </li>
      )}
      {children}
    </>
  );
}

function Version({
  kind,
  version,
  site,
  word
}: {
  kind: 'saved' | 'written';
  version: number;
  site: Site | null;
  word: string;
}): ReactElement {
  return (
    <li>
      <span className="agv-v" data-kind={kind}>
        v{version}
      </span>
      <span>
        {site ? <SourceLink site={site} /> : 'unknown location'} {word}
      </span>
      {site?.text && <code>{block(site.text, 300)}</code>}
    </li>
  );
}
