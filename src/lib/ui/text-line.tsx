import {Box, Text} from 'ink'
import {clip, type Line, merged} from './line.js'
import type {Scene} from './scene.js'

interface TextLineProps {
  readonly line: Line
  readonly scene: Pick<Scene, 'settings' | 'size'>
}

/** One line of the screen, cut off at its end. */
export function TextLine({line, scene}: TextLineProps) {
  const {glyphs, palette} = scene.settings
  const pieces = merged(clip(line, scene.size.columns, glyphs.ellipsis))
  return (
    <Box height={1} flexShrink={0}>
      <Text wrap="truncate-end">
        {pieces.map(({text, tone}, position) =>
          tone === 'plain' ? (
            text
          ) : (
            // biome-ignore lint/suspicious/noArrayIndexKey: a piece is what stands at its place in the line
            <Text key={position} {...palette[tone]}>
              {text}
            </Text>
          ),
        )}
      </Text>
    </Box>
  )
}
