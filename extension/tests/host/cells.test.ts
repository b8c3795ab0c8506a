// The name that a notebook's cells give the package.

import { describe, expect, it } from 'vitest';
import { nameOfPackage } from '../../src/host/cells';

describe('nameOfPackage', () => {
  it('reads the import that the notebook has', () => {
    expect(nameOfPackage(['x = 1', 'import ag_visual as torch\nimport numpy as np'])).toBe('torch');
    expect(nameOfPackage(['import ag_visual'])).toBe('ag_visual');
    expect(nameOfPackage(['if True:\n    import ag_visual as ag  # here'])).toBe('ag');
    expect(nameOfPackage(['import ag_visual as a', 'import ag_visual as b'])).toBe('b');
  });

  it('knows programs whose torch is the package', () => {
    const magic = '%load_ext ag_visual\n%ag_visual as_torch';
    expect(nameOfPackage([magic, 'import torch'])).toBe('torch');
    expect(nameOfPackage(['import torch'])).toBeNull();
  });

  it('is not misled by parts of it, other packages and text', () => {
    expect(nameOfPackage(['import ag_visual.nn as nn'])).toBeNull();
    expect(nameOfPackage(['# import ag_visual as no', 'import ag_visuals as no'])).toBeNull();
    expect(nameOfPackage([])).toBeNull();
  });
});
