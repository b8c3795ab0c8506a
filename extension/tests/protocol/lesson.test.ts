// Lessons in addresses: read and written alike, with a word about what was not understood.

import { describe, expect, it } from 'vitest';
import type { Lesson } from '../../src/protocol/schema';
import {
  NO_LESSON,
  SPEEDS,
  nearestSpeed,
  pauseFor,
  readFragment,
  readLesson,
  writeFragment
} from '../../src/protocol/lesson';

const FULL: Lesson = {
  text: 'Why is ∂L/∂w = 6 & not 3? <b>',
  hide: ['search', 'export'],
  node: 'W1',
  step: 3,
  predict: true,
  scalars: true,
  speed: 0.5,
  direction: 'back'
};

describe('addresses', () => {
  const lessons = [NO_LESSON, FULL, { ...NO_LESSON, text: 'one\ntwo' }];
  it.each(lessons)('come back as they went', lesson => {
    const { lesson: read, ignored } = readFragment(writeFragment(lesson));
    expect(read).toEqual(lesson);
    expect(ignored).toEqual([]);
  });

  it('are readable', () => {
    expect(writeFragment({ ...FULL, text: 'Go', node: '' })).toBe(
      '#lesson=Go&hide=search,export&step=3&predict=on&scalars=on&speed=0.5&direction=back'
    );
  });

  it('say what they do not know, and go on', () => {
    const { lesson, ignored } = readFragment(
      '#lesson=Go&hide=search,dance&colour=red&speed=90&step=0&predict=maybe&direction=up'
    );
    expect(lesson).toEqual({ ...NO_LESSON, text: 'Go', hide: ['search'] });
    expect(ignored.map(text => text.split(' ')[0])).toEqual([
      'hide=dance',
      'colour',
      'speed=90',
      'step=0',
      'predict=maybe',
      'direction=up'
    ]);
  });

  it('of other pages are no lesson', () => {
    for (const fragment of ['', '#', '#section-2', '#hide=search']) {
      expect(readFragment(fragment)).toEqual({ lesson: null, ignored: [] });
    }
  });
});

describe('lessons from files', () => {
  it('keep what is of the right kind', () => {
    expect(readLesson(JSON.parse(JSON.stringify(FULL)))).toEqual(FULL);
    const about = { title: 'Chains', author: 'A. Lovelace', date: 'Nov 2026' };
    const titled = { ...FULL, ...about };
    expect(readLesson({ ...titled, author: 'A. Lovelace' })).toEqual(titled);
    expect(readLesson({ ...FULL, title: 5, date: '' })).toEqual(FULL);
    expect(readFragment(writeFragment(titled)).lesson).toEqual(titled);
    expect(readLesson({ text: 5, hide: ['search', 'x'], step: 'a', speed: 99 })).toEqual({
      ...NO_LESSON,
      hide: ['search']
    });
    expect(readLesson(null)).toBeNull();
    expect(readLesson('x')).toBeNull();
  });
});

describe('speeds', () => {
  it('go from a node in two seconds to one in 60 ms', () => {
    expect(pauseFor(SPEEDS[0])).toBe(2000);
    expect(pauseFor(SPEEDS[SPEEDS.length - 1])).toBeLessThanOrEqual(63);
    expect(nearestSpeed(0.3)).toBe(0.25);
    expect(nearestSpeed(100)).toBe(8);
  });
});
