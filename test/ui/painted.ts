import {Painter} from '../../src/lib/ui/draw/painter.js'
import {paletteFor} from '../../src/lib/ui/draw/palette.js'
import type {Scene, Size} from '../../src/lib/ui/model/scene.js'
import {screenLines} from '../../src/lib/ui/screen.js'
import {FakeTerminal} from './terminal.js'

/** A terminal with colours on which scenes are painted one over the other; tells what one sees, without the colours. */
export function easel({columns, rows}: Size): (scene: Scene) => string {
  const terminal = new FakeTerminal(columns, rows)
  const painter = new Painter(text => terminal.write(text), paletteFor(24))
  return scene => {
    painter.paint(screenLines(scene))
    return terminal.screen
  }
}
