// The card on which a student guesses the gradient that a node is about to hand on.

import type { ReactElement } from 'react';
import { useEffect, useId, useRef, useState } from 'react';
import { oneLine } from '../protocol/text';
import { work } from '../model/arithmetic';
import { numberText, shapeText } from '../model/format';
import type { Guess, Mark, Question, Sign } from '../model/prediction';
import { answerText, numel, placeOf, scoreText } from '../model/prediction';
import type { Asked } from './predictor';
import { useInspector } from './presenter';

const SIGNS: { sign: Sign; label: string }[] = [
  { sign: '', label: 'sign only …' },
  { sign: '-', label: 'negative' },
  { sign: '0', label: 'zero' },
  { sign: '+', label: 'positive' }
];

function Number_({
  label,
  disabled,
  put
}: {
  label: string;
  disabled: boolean;
  put: (value: number | null) => void;
}): ReactElement {
  const [text, setText] = useState('');
  const id = useId();
  const worked = work(text);
  const said =
    text.trim() === ''
      ? ''
      : worked.kind === 'wrong'
        ? worked.why
        : /^[-+−]?[\d.]+$/.test(text.trim())
          ? ''
          : `= ${numberText(worked.value)}`;
  return (
    <>
      <input
        type="text"
        size={12}
        aria-label={label}
        aria-describedby={id}
        aria-invalid={text.trim() !== '' && worked.kind === 'wrong'}
        placeholder="e.g. 2*3"
        spellCheck={false}
        autoComplete="off"
        value={text}
        disabled={disabled}
        onChange={event => {
          setText(event.target.value);
          const now = work(event.target.value);
          put(now.kind === 'number' ? now.value : null);
        }}
      />
      <span id={id} className="agv-quiet" aria-live="polite">
        {said}
      </span>
    </>
  );
}

function MarkLine({
  question,
  guess,
  mark,
  product
}: {
  question: Question;
  guess: Guess;
  mark: Mark | null;
  product: string;
}): ReactElement {
  const answered = mark !== null && mark.words !== '';
  const what = answerText(question, guess, product || question.product);
  return (
    <p className="agv-mark" data-right={mark ? (mark.right ? 'yes' : 'no') : 'none'}>
      <b>
        {answered ? (mark.right ? '✓ ' : '✗ ') : ''}
        {what}
      </b>
      {answered && !(mark.right && guess.shape === null) ? ` · ${mark.words}` : ''}
      {numel(question.shape) > 1 && (
        <span className="agv-quiet"> of {shapeText(question.shape)}</span>
      )}
    </p>
  );
}

function One({
  asked,
  index,
  question
}: {
  asked: Asked;
  index: number;
  question: Question;
}): ReactElement {
  const { model, teaching } = useInspector();
  const { predictor } = teaching;
  const name = oneLine(model.titleOf(question.seq), 40);
  const open = asked.marks === null && !asked.skipped;
  const scalar = numel(question.shape) === 1;
  const guess = asked.guesses[index];
  const element = scalar ? '' : ` element ${placeOf(question.element, question.shape)}`;
  return (
    <div className="agv-ask">
      <div>
        to <b>{name}</b>
      </div>
      {open && (
        <>
          {!scalar && (
            <select
              aria-label={`Shape of the gradient to ${name}`}
              value={guess.shape ?? ''}
              onChange={event =>
                predictor.guess(index, {
                  shape: event.target.value === '' ? null : Number(event.target.value)
                })
              }
            >
              <option value="">its shape …</option>
              {question.shapes.map((shape, i) => (
                <option key={shape.join(' ')} value={i}>
                  {shapeText(shape)}
                </option>
              ))}
            </select>
          )}
          <div className="agv-ask-row">
            {!scalar && <span className="agv-quiet">{element.trim()}</span>}
            <Number_
              label={`Gradient to ${name}${element}`}
              disabled={!open}
              put={value => predictor.guess(index, { value })}
            />
          </div>
          {!scalar && guess.value === null && (
            <select
              aria-label={`Sign of the gradient to ${name}${element}`}
              value={guess.sign}
              onChange={event => predictor.guess(index, { sign: event.target.value as Sign })}
            >
              {SIGNS.map(({ sign, label }) => (
                <option key={sign} value={sign}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </>
      )}
      {!open && (
        <MarkLine
          question={question}
          guess={guess}
          mark={asked.marks?.[index] ?? null}
          product={asked.products[index] ?? ''}
        />
      )}
    </div>
  );
}

/** The question about the node that is next, or the way to it. */
export function PredictionCard({ seq }: { seq: number }): ReactElement | null {
  const presenter = useInspector();
  const { predictor } = presenter.teaching;
  const { now } = predictor;
  const card = useRef<HTMLFormElement>(null);
  const asking = predictor.asking;
  const key = now?.seq === seq && now.questions ? now.key : '';
  useEffect(() => {
    // After the answer the button that had the focus is gone: the card takes it.
    if (!asking && card.current?.contains(document.activeElement)) card.current.focus();
  }, [asking]);
  if (!now) {
    return null;
  }
  if (now.seq !== seq) {
    return asking ? (
      <p className="agv-line">
        <button type="button" className="agv-link" onClick={() => presenter.goTo(now.seq)}>
          A prediction is open
        </button>{' '}
        at {oneLine(presenter.model.titleOf(now.seq), 60)}: gradients to come are hidden.
      </p>
    ) : null;
  }
  if (now.why) {
    return <p className="agv-line agv-quiet">Nothing to predict: {oneLine(now.why, 300)}</p>;
  }
  if (!now.questions) {
    return <p className="agv-line agv-quiet">Asking the kernel…</p>;
  }
  const title = oneLine(presenter.model.titleOf(seq), 60);
  return (
    <form
      ref={card}
      key={key}
      className="agv-predict"
      tabIndex={-1}
      aria-label="Prediction"
      onSubmit={event => {
        event.preventDefault();
        predictor.reveal();
      }}
    >
      <div className="agv-predict-head">
        <b>{asking ? 'Predict' : now.skipped ? 'Skipped' : 'Revealed'}</b>
        <span className="agv-quiet">{scoreText(predictor.score)}</span>
      </div>
      <p className="agv-line">
        {asking
          ? `Which gradient does ${title} hand on?`
          : `The gradient that ${title} hands on`}
      </p>
      {now.questions.map((question, i) => (
        <One key={i} asked={now} index={i} question={question} />
      ))}
      <div className="agv-row">
        {asking ? (
          <>
            <button
              type="submit"
              className="agv-btn"
              data-primary="yes"
              disabled={!predictor.ready}
            >
              Reveal
            </button>
            <button type="button" className="agv-btn" onClick={() => predictor.skip()}>
              Skip
            </button>
          </>
        ) : (
          !presenter.hides('step') && (
            <button type="button" className="agv-btn" onClick={() => presenter.debugger.step()}>
              Next node
            </button>
          )
        )}
      </div>
    </form>
  );
}
