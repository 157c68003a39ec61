import {Box, Transform} from 'ink'
import {createContext, memo, use} from 'react'
import {clip, columnsOf, isSameLine, type Line, type Palette, paletteFor} from './line.js'

export interface Canvas {
  readonly columns: number
  readonly palette: Palette
  readonly ellipsis: string
}

export const CanvasContext = createContext<Canvas>({columns: 80, palette: paletteFor(1), ellipsis: '…'})

/** Ink lays out a blank, replaced by the text on output: it would measure a `<Text>` several times per frame. */
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
