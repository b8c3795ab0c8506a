// The Inspector's icon in JupyterLab.

import { LabIcon } from '@jupyterlab/ui-components';

export const inspectorIcon = new LabIcon({
  name: 'ag-visual:inspector',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">' +
    '<g class="jp-icon3" fill="#616161">' +
    '<rect x="4.5" y="1" width="7" height="4" rx="1"/>' +
    '<rect x="1" y="11" width="6" height="4" rx="1"/>' +
    '<rect x="9" y="11" width="6" height="4" rx="1"/>' +
    '<path d="M7.4 5v2.5L4 9.4V11h1V10l3-1.7 3 1.7v1h1V9.4L8.6 7.5V5z"/></g></svg>'
});
