// The editor of the workshop and of cells, CodeMirror: the build bundles it into a file that a page loads when it is asked for.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { pythonLanguage } from '@codemirror/lang-python';
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { EditorState } from '@codemirror/state';
import { drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

// The colours of the book's code, see code.css.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword], color: 'var(--mlx-keyword)', fontWeight: '560' },
  { tag: tags.string, color: 'var(--mlx-string)' },
  { tag: tags.number, color: 'var(--mlx-number)' },
  { tag: [tags.definition(tags.variableName), tags.function(tags.definition(tags.variableName))], color: 'var(--mlx-name)' },
  { tag: tags.comment, color: 'var(--mlx-comment)', fontStyle: 'italic' },
]);

// An editor in `place`; `changed` hears its text, `run` is what Ctrl+Enter does. Tab indents: Escape, then Tab leaves.
export function edit(place, { text, label, described, changed, run, numbered = true }) {
  const view = new EditorView({
    parent: place,
    state: EditorState.create({
      doc: text,
      extensions: [
        numbered ? lineNumbers() : [], history(), drawSelection(), indentOnInput(), bracketMatching(), pythonLanguage, syntaxHighlighting(colours),
        indentUnit.of('    '), EditorState.tabSize.of(4),
        keymap.of([{ key: 'Mod-Enter', run: () => { run(); return true; } }, indentWithTab, ...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({ 'aria-label': label, 'aria-describedby': described, tabindex: '0' }),
        EditorView.updateListener.of((update) => { if (update.docChanged) changed(update.state.doc.toString()); }),
      ],
    }),
  });
  return {
    put: (words) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: words } }), // can be undone
    focus: () => view.focus(),
  };
}
