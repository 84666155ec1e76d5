// What a page with experiments loads; nothing else happens until the reader touches something.
import { enliven } from './experiment.mjs';
import { ask } from './predict.mjs';

document.querySelectorAll('.mlx[data-mlx]').forEach(enliven);
document.querySelectorAll('.mlx-predict[data-predict]').forEach(ask);
