import {canonicalCron, cronFields} from './cron-text.js'
import {type CalendarCheck, type CronUse, DEFAULT_ZONE} from './limit.js'
import {type Piece, slicePiece, splitPiece, syntaxError} from './syntax-problem.js'

/** The zone of a limit: given at most once, or alike each time. */
export interface ZoneReader {
  readonly calendar: CalendarCheck | undefined
  readonly take: (piece: Piece) => void
  readonly given: () => string | undefined
}

/** All parts of a limit share one zone, so that it can be given at any one of them. */
export function zoneReader(calendar: CalendarCheck | undefined): ZoneReader {
  let zone: string | undefined
  return {
    calendar,
    given: () => zone,
    take(piece) {
      const problem = piece.text === '' ? 'the time zone is missing' : calendar?.zone(piece.text)
      if (problem !== undefined) throw syntaxError(piece, problem)
      if (zone !== undefined && zone !== piece.text)
        throw syntaxError(piece, `a limit has one time zone, and this one has ${zone} already`)
      zone = piece.text
    },
  }
}

/** Whether the text after the `@` is one or more crons; otherwise it is a zone. */
export const isCronText = ({text}: Piece): boolean => text.startsWith('"')

/** Reads `"CRON[; CRON…] [ZONE]"`. */
export function parseCrons(piece: Piece, use: CronUse, zone: ZoneReader): [string, ...string[]] {
  const {text} = piece
  if (!isCronText(piece)) throw syntaxError(piece, 'a cron must be in double quotes, as in @"0 9 * * 1-5"')
  const end = text.indexOf('"', 1)
  if (end < 0) throw syntaxError(slicePiece(piece, 0, 1), 'the closing quote of the cron is missing')
  if (end + 1 < text.length) throw syntaxError(slicePiece(piece, end + 1), `"${text.slice(end + 1)}" follows the cron`)
  const crons = splitPiece(slicePiece(piece, 1, end), ';').map(each => parseCron(each, use, zone))
  return crons as [string, ...string[]]
}

function parseCron(piece: Piece, use: CronUse, zone: ZoneReader): string {
  const words = [...piece.text.matchAll(/\S+/g)]
  const sixth = words[5]
  const hasZone = words.length === 6 && /^[A-Za-z]/.test(sixth?.[0] ?? '')
  const cron = words
    .slice(0, hasZone ? 5 : undefined)
    .map(([word]) => word)
    .join(' ')
  if (cronFields(cron) === undefined)
    throw syntaxError(piece, 'a cron has five fields: minute, hour, day, month, weekday; a time zone may follow')
  const canonical = canonicalCron(cron)
  const problem = zone.calendar?.cron(canonical, use)
  if (problem !== undefined) {
    const first = words[0]?.index ?? 0
    const last = words[4]
    throw syntaxError(slicePiece(piece, first, (last?.index ?? 0) + (last?.[0].length ?? 0)), problem)
  }
  if (hasZone && sixth) zone.take(slicePiece(piece, sixth.index, sixth.index + sixth[0].length))
  return canonical
}

/** The inverse of {@link parseCrons}; `zone` only where it must be said. */
export function formatCrons(crons: readonly string[], zone: string | undefined): string {
  return `"${crons.join('; ')}${zone === undefined || zone === DEFAULT_ZONE ? '' : ` ${zone}`}"`
}
