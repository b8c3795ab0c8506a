// Unit tests of the front end. A test that needs a document starts with `// @vitest-environment jsdom`
// and stands in tests/panels, or is named below.
import { defineConfig } from 'vitest/config';

const documents = ['tests/panels/**/*.test.{ts,tsx}', 'tests/draw/svg.test.ts'];

export default defineConfig({
  test: {
    environment: 'node',
    passWithNoTests: false,
    // Nothing is measured here: what never ends shall end, on the slowest machine.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    projects: [
      // What writes into a document has a process of its own for each file.
      { extends: true, test: { name: 'documents', include: documents } },
      // The others share what they import, and leave nothing behind.
      {
        extends: true,
        test: {
          name: 'plain',
          include: ['tests/**/*.test.{ts,tsx}', 'src/**/*.test.{ts,tsx}'],
          exclude: documents,
          isolate: false,
          restoreMocks: true,
          unstubGlobals: true
        }
      }
    ]
  }
});
