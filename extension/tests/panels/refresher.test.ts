// @vitest-environment jsdom
// When a refresh comes: soon for what is whole, late for what is growing, once for all who ask.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Refresher } from '../../src/panels/refresher';

let refreshed = 0;
/** what one refresh takes */
let cost = 0;
let now = 0;
let refresher: Refresher;

function pass(milliseconds: number): void {
  for (let i = 0; i < milliseconds; i++) {
    now++;
    vi.advanceTimersByTime(1);
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  refreshed = 0;
  cost = 0;
  now = 1000;
  refresher = new Refresher(
    () => {
      refreshed++;
      now += cost;
    },
    () => now
  );
});

afterEach(() => {
  refresher.dispose();
  vi.useRealTimers();
});

describe('Refresher', () => {
  it('refreshes once, as soon as the page is free, for all who ask together', () => {
    for (let i = 0; i < 5; i++) refresher.ask('whole');
    expect(refreshed).toBe(0);
    pass(1);
    expect(refreshed).toBe(1);
  });

  it('gives what is growing time to become whole, but shows it while it grows on', () => {
    for (let i = 0; i < 50; i++) {
      refresher.ask('growing');
      pass(1);
    }
    expect(refreshed).toBe(0);
    pass(20);
    expect(refreshed).toBe(1);
  });

  it('does not wait any more when the whole has come', () => {
    refresher.ask('growing');
    pass(5);
    refresher.ask('whole');
    pass(1);
    expect(refreshed).toBe(1);
    pass(200);
    expect(refreshed).toBe(1);
  });

  it('leaves the reader as much time as a costly refresh takes, more while a pass grows', () => {
    cost = 100;
    refresher.run();
    refresher.ask('whole');
    pass(90);
    expect(refreshed).toBe(1);
    pass(20);
    expect(refreshed).toBe(2);
    refresher.ask('growing');
    pass(250);
    expect(refreshed).toBe(2);
    pass(60);
    expect(refreshed).toBe(3);
  });

  it('shows a training loop some times a second, and what the reader does at once', () => {
    for (let i = 0; i < 1000; i++) {
      refresher.ask('whole');
      pass(1);
    }
    expect(refreshed).toBeGreaterThan(10);
    expect(refreshed).toBeLessThan(25);
    const before = refreshed;
    refresher.ask('reader');
    pass(1);
    expect(refreshed).toBe(before + 1);
  });

  it('never refreshes after its end', () => {
    refresher.ask('whole');
    refresher.dispose();
    pass(100);
    expect(refreshed).toBe(0);
  });
});
