// What the reader of a lesson is to do, above the graph; plain text, and the score so far.

import type { ReactElement } from 'react';
import { scoreText } from '../model/prediction';
import { block } from '../protocol/text';
import { LONGEST_TEXT } from '../protocol/lesson';
import { useInspector } from './presenter';

export function LessonBar(): ReactElement | null {
  const { lesson, predictor } = useInspector().teaching;
  const { score } = predictor;
  const scored = predictor.on && score.predicted + score.skipped > 0;
  if (!lesson.text && !scored) {
    return null;
  }
  return (
    <div className="agv-lesson" role="note" aria-label="Lesson">
      <span className="agv-lesson-text">{block(lesson.text, LONGEST_TEXT)}</span>
      {scored && (
        <span className="agv-score" role="status">
          {scoreText(score)}
        </span>
      )}
    </div>
  );
}
