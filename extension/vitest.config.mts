// Unit tests of the front end. A test that needs a document starts with `// @vitest-environment jsdom`.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'node',
    include: ['tests/**/*.test.{ts,tsx}', 'src/**/*.test.{ts,tsx}'],
    passWithNoTests: false,
    // Nothing is measured here: what never ends shall end, on the slowest machine.
    testTimeout: 300_000,
    hookTimeout: 300_000
  }
});
