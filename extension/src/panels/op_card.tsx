// The selected node's chain rule: its formula, the derivative that its backward computes, and both
// with the numbers of this very node.

import type { ReactElement } from 'react';
import { useEffect, useId, useMemo, useState } from 'react';
import type { CardNumbers, NodeDetails, OpCard as Card } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import type { InputName } from '../model/inputs';
import { inputNames, resultName } from '../model/inputs';
import { CheckNode } from './check_node';
import type { Pointing } from './math';
import { MathLine } from './math';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';
import { useRequest } from './use_request';

/** Changes whenever the kernel may know more of a node, or less. */
export function momentOf(presenter: Presenter, seq: number): string {
  const { model } = presenter;
  const { store } = model;
  const { paused } = store.state;
  const stop = paused ? `${paused.task}.${paused.order}.${store.batch}` : '';
  const { kind } = model.status;
  return `${store.session} ${store.epoch} ${seq} ${stop} ${model.stateOf(seq)} ${kind}`;
}

const SOURCES: Record<CardNumbers['source'], string> = {
  waits: 'grad is the gradient that waits here.',
  kept: 'grad is the gradient that retain_grad() kept.',
  ones: 'No gradient waits here: grad is 1 everywhere, so this is the slope alone.'
};

export function OpCard({
  seq,
  name,
  details
}: {
  seq: number;
  name: string;
  details: NodeDetails | null;
}): ReactElement | null {
  const presenter = useInspector();
  const moment = momentOf(presenter, seq);
  const reply = useRequest<{ of: number; card: Card }>(`card ${moment}`, async () => ({
    of: seq,
    card: await presenter.controller.request('card', { seq, name })
  }));
  if (!presenter.answering && (reply.kind !== 'answer' || reply.value.of !== seq)) {
    return null;
  }
  if (reply.kind !== 'answer') {
    return reply.kind === 'none' && reply.why !== '' ? (
      <>
        <div className="agv-sec">Chain rule</div>
        <p className="agv-line agv-quiet">{oneLine(reply.why, 300)}</p>
      </>
    ) : null;
  }
  return <Explained seq={seq} card={reply.value.card} moment={moment} details={details} />;
}

function Explained({
  seq,
  card,
  moment,
  details
}: {
  seq: number;
  card: Card;
  moment: string;
  details: NodeDetails | null;
}): ReactElement {
  const presenter = useInspector();
  const { model, teaching } = presenter;
  // With numbers in it the formula is the answer to an open question.
  const { asking } = teaching.predictor;
  const countable = (card.numbers ?? false) && card.note === '' && !asking;
  const waits = model.store.state.paused?.seq === seq;
  const numbers = countable && (teaching.formula ?? (waits ? 'numbers' : 'names')) === 'numbers';
  const names = inputNames(model.store, seq, card);
  const pointing = usePointing(names);
  return (
    <section className="agv-chain" aria-label="Chain rule">
      <div className="agv-sec agv-sec-row">
        Chain rule
        {countable && <FormulaSwitch numbers={numbers} />}
      </div>
      {card.says !== '' && <p className="agv-line">{oneLine(card.says, 300)}</p>}
      <MathLine math={card.forward} label={oneLine(card.text, 1000)} pointing={pointing} />
      <Here names={names} result={resultName(model.store, seq, card)} />
      {numbers ? (
        <NumbersOf seq={seq} moment={moment} pointing={pointing} />
      ) : (
        card.derivatives.slice(0, 12).map(one => (
          <div key={one.input}>
            <MathLine math={one.math} label={oneLine(one.text, 1000)} pointing={pointing} />
            {one.where.slice(0, 16).map((line, i) => (
              <MathLine key={i} math={line} label="where" small pointing={pointing} />
            ))}
            {one.says !== '' && <p className="agv-line agv-quiet">{oneLine(one.says, 300)}</p>}
          </div>
        ))
      )}
      {card.given.length > 0 && (
        <p className="agv-line agv-quiet">
          {card.given
            .slice(0, 12)
            .map(({ name: argument, text }) => `${oneLine(argument, 40)} = ${oneLine(text, 60)}`)
            .join(', ')}
        </p>
      )}
      {card.note !== '' && <p className="agv-line agv-quiet">{oneLine(card.note, 300)}</p>}
      {!asking && <CheckNode seq={seq} details={details} explained={card.note !== ''} />}
    </section>
  );
}

function FormulaSwitch({ numbers }: { numbers: boolean }): ReactElement {
  const { teaching } = useInspector();
  return (
    <span className="agv-switch" role="radiogroup" aria-label="Formula with">
      {(['names', 'numbers'] as const).map(kind => (
        <button
          key={kind}
          type="button"
          role="radio"
          aria-checked={numbers === (kind === 'numbers')}
          onClick={() => teaching.setFormula(kind)}
        >
          {kind}
        </button>
      ))}
    </span>
  );
}

/** What of a formula can be pointed at: then the graph rings the node that it comes from. */
function usePointing(names: readonly InputName[]): Pointing {
  const { model } = useInspector();
  useEffect(() => () => model.point([]), [model]);
  const key = JSON.stringify(names);
  return useMemo(() => {
    const known = names.filter(({ seq }) => seq !== null);
    return {
      says: new Map(
        known.map(({ input, text, seq }) => [input, text || model.titleOf(seq ?? -1)] as const)
      ),
      point: name => {
        const found = known.find(({ input }) => input === name);
        model.point(found && found.seq !== null ? [found.seq] : []);
      }
    };
    // The names are made anew each time: the key says whether they are others.
  }, [key, model]);
}

/** 'here self is torch.sin(x), other is x': what the formula's names are on the user's line. */
function Here({
  names,
  result
}: {
  names: readonly InputName[];
  result: string;
}): ReactElement | null {
  const presenter = useInspector();
  const { model } = presenter;
  const said = [
    ...names.filter(({ text }) => text !== ''),
    ...(result ? [{ input: 'result', text: result, seq: null }] : [])
  ].slice(0, 12);
  if (said.length === 0) {
    return null;
  }
  return (
    <p className="agv-line agv-here">
      here{' '}
      {said.map(({ input, text, seq }, i) => (
        <span key={input}>
          {i > 0 && ', '}
          {seq === null ? (
            <i>{oneLine(input, 40)}</i>
          ) : (
            <button
              type="button"
              className="agv-link"
              onMouseEnter={() => model.point([seq])}
              onMouseLeave={() => model.point([])}
              onFocus={() => model.point([seq])}
              onBlur={() => model.point([])}
              onClick={() => presenter.goTo(seq)}
            >
              {oneLine(input, 40)}
            </button>
          )}{' '}
          is <code>{text}</code>
        </span>
      ))}
    </p>
  );
}

/** Which element's numbers are shown; null: as the kernel chooses. */
interface Choice {
  input: string | null;
  at: number | null;
}

function NumbersOf({
  seq,
  moment,
  pointing
}: {
  seq: number;
  moment: string;
  pointing: Pointing;
}): ReactElement {
  const presenter = useInspector();
  const [choice, setChoice] = useState<Choice>({ input: null, at: null });
  const { input, at } = choice;
  const reply = useRequest<CardNumbers>(`${moment} ${input} ${at}`, () =>
    presenter.controller.request('numbers', {
      seq,
      ...(input === null ? {} : { input }),
      ...(at === null ? {} : { at })
    })
  );
  if (reply.kind !== 'answer') {
    const why =
      reply.kind === 'waiting'
        ? 'Asking the kernel…'
        : reply.why || 'This recording was made without the numbers of this node.';
    return <p className="agv-line agv-quiet">{oneLine(why, 300)}</p>;
  }
  const numbers = reply.value;
  return (
    <>
      <Element
        numbers={numbers}
        choose={setChoice}
        fixed={!presenter.live}
      />
      <MathLine
        math={numbers.math}
        label={oneLine(numbers.text, 1000)}
        pointing={pointing}
      />
      {numbers.used.length > 0 && (
        <ul className="agv-used">
          {numbers.used.slice(0, 8).map(({ name, text }) => (
            <li key={name}>
              <code>{oneLine(name, 60)}</code> = {oneLine(text, 40)}
            </li>
          ))}
        </ul>
      )}
      <p className="agv-line agv-quiet">{SOURCES[numbers.source]}</p>
    </>
  );
}

function Element({
  numbers,
  choose,
  fixed
}: {
  numbers: CardNumbers;
  choose: (choice: Choice) => void;
  fixed: boolean;
}): ReactElement {
  const id = useId();
  const { input, inputs, at, index, shape } = numbers;
  const count = shape.reduce((product, n) => product * n, 1);
  const place = index.length > 0 ? `[${index.join(', ')}]` : 'a scalar';
  const turn = (by: number): void => choose({ input, at: (at + by + count) % count });
  return (
    <div className="agv-element">
      {inputs.length > 1 && !fixed ? (
        <>
          <label className="agv-hidden" htmlFor={id}>
            Gradient of
          </label>
          <select
            id={id}
            value={input}
            onChange={event => choose({ input: event.target.value, at: null })}
          >
            {inputs.map(one => (
              <option key={one} value={one}>
                {oneLine(one, 40)}
              </option>
            ))}
          </select>
        </>
      ) : (
        <code>{oneLine(input, 40)}</code>
      )}
      <span aria-live="polite">{place}</span>
      {count > 1 && !fixed && (
        <>
          <button
            type="button"
            className="agv-step"
            aria-label="Element before"
            title="Element before"
            onClick={() => turn(-1)}
          >
            ‹
          </button>
          <button
            type="button"
            className="agv-step"
            aria-label="Next element"
            title="Next element"
            onClick={() => turn(1)}
          >
            ›
          </button>
        </>
      )}
    </div>
  );
}
