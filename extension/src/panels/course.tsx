// The lessons of the course, for the panel that has nothing else to show.

import type { ReactElement } from 'react';
import { useEffect, useState } from 'react';
import type { CourseLesson } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { useInspector } from './presenter';

export function Course(): ReactElement | null {
  const presenter = useInspector();
  const [lessons, setLessons] = useState<CourseLesson[]>([]);
  useEffect(() => {
    let gone = false;
    void presenter.course().then(found => {
      if (!gone) setLessons(found);
    });
    return () => {
      gone = true;
    };
  }, [presenter]);
  if (lessons.length === 0) {
    return null;
  }
  return (
    <details className="agv-course">
      <summary>Course: {lessons.length} lessons</summary>
      <ul>
        {lessons.map(lesson => (
          <li key={lesson.name}>
            <button
              type="button"
              className="agv-link"
              title={oneLine(lesson.name, 80)}
              onClick={() => void presenter.openLesson(lesson)}
            >
              {oneLine(lesson.title, 80)}
            </button>
          </li>
        ))}
      </ul>
    </details>
  );
}
