// A repair as an edit of a cell's text.

import { describe, expect, it } from 'vitest';
import { edited } from '../../src/host/try_out';
import type { Edit, Site } from '../../src/protocol/schema';

const site: Site = {
  file: '',
  kind: 'cell',
  cell_id: 'a',
  execution_count: 1,
  line: 2,
  col: 0,
  end_line: 2,
  end_col: 0,
  function: '',
  text: '',
  where: 'cell In[1], line 2',
  source_line: ''
};
const edit: Edit = { site, first: 2, was: ['y += 1'], becomes: ['y = y + 1', '# done'] };

describe('edited', () => {
  it('replaces lines that read as they ran', () => {
    expect(edited('a\ny += 1  \nb', edit)).toBe('a\ny = y + 1\n# done\nb');
  });

  it('refuses lines that were changed since, or are gone', () => {
    expect(edited('a\ny += 2\nb', edit)).toBeNull();
    expect(edited('a', edit)).toBeNull();
  });
});
