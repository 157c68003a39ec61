import {Box, Transform} from 'ink'
import {createContext, memo, use} from 'react'
import {clip, columnsOf, isSameLine, type Line} from './line.js'
import {type Palette, paletteFor} from './palette.js'

export interface Canvas {
  readonly columns: number
  readonly palette: Palette
  readonly ellipsis: string
}

export const CanvasContext = createContext<Canvas>({columns: 80, palette: paletteFor(1), ellipsis: '…'})

/**
 * One line of the screen, cut off at its right edge. Its width is known: Ink lays out a blank of that width, and the text with
 * its styles takes the place of the blank when the frame is written. A `<Text>` would be measured several times per frame,
 * grapheme by grapheme, and would be laid out again with every change.
 */
export const ScreenLine = memo(
  function ScreenLine({line}: {readonly line: Line}) {
    const {columns, palette, ellipsis} = use(CanvasContext)
    const visible = clip(line, columns, ellipsis)
    const text = visible.map(({text, tone}) => palette[tone].open + text + palette[tone].close).join('')
    return (
      <Box height={1} flexShrink={0}>
        <Transform transform={(_, row) => (row === 0 ? text : '')}>{' '.repeat(columnsOf(visible))}</Transform>
      </Box>
    )
  },
  (a, b) => isSameLine(a.line, b.line),
)

export function ScreenLines({lines}: {readonly lines: readonly Line[]}) {
  return lines.map((line, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a line of text has no other identity than its place
    <ScreenLine key={at} line={line} />
  ))
}
