// What a chapter loads; nothing else happens until the reader touches something.
import { follow } from './contents.mjs';
import { enliven } from './experiment.mjs';
import { reachable } from './formulas.mjs';
import { ask } from './predict.mjs';
import { tell } from './tips.mjs';

document.querySelectorAll('.mlx[data-mlx]').forEach(enliven);
document.querySelectorAll('.mlx-predict[data-predict]').forEach(ask);
follow();
reachable();
tell();
