import { expect, test, vi } from 'vitest';
import { Cell } from '../../src/protocol/cell';

test('a cell tells of another value, not of the same one', () => {
  const cell = new Cell<number | null>(1);
  const told = vi.fn(() => cell.value);
  const { subscribe } = cell;
  const stop = subscribe(told);
  cell.set(1);
  expect(told).not.toHaveBeenCalled();
  cell.set(2);
  expect(told).toHaveReturnedWith(2);
  stop();
  cell.set(null);
  expect(told).toHaveBeenCalledTimes(1);
  expect(cell.value).toBeNull();
});

test('a listener that fails keeps no other from being told', () => {
  const cell = new Cell('a');
  const failed = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const told = vi.fn();
  cell.subscribe(() => {
    throw new Error('of its own');
  });
  cell.subscribe(told);
  cell.set('b');
  expect(told).toHaveBeenCalledOnce();
  expect(failed).toHaveBeenCalledOnce();
  failed.mockRestore();
  cell.dispose();
  cell.set('c');
  expect(told).toHaveBeenCalledOnce();
});
