import {InvalidInput} from '../errors.js'
import {didYouMean, nearestNames} from '../text/nearest.js'

export const MINUTE_MS = 60_000
export const DAY_MS = 86_400_000

/** A span with a constant offset. Both ends are whole minutes. */
export interface OffsetSpan {
  /** Wall clock minus instant, in ms. */
  readonly offsetMs: number
  readonly fromMs: number
  /** Exclusive. */
  readonly untilMs: number
}

/** Probe every 4 days: since 1972, no zone has changed its clocks twice within a week. */
const PROBE_MS = 4 * DAY_MS
const CHUNK_MS = 16 * PROBE_MS
const MOST_CHUNKS = 2000

/** Maps instants to wall-clock times. The reverse is ambiguous: spring skips times and autumn repeats an hour. */
export class TimeZone {
  readonly name: string
  readonly #format: Intl.DateTimeFormat
  /** Cache per chunk of time: asking `Intl` takes microseconds. */
  readonly #spans = new Map<number, readonly OffsetSpan[]>()

  constructor(name: string) {
    this.name = checkTimeZoneName(name)
    this.#format = new Intl.DateTimeFormat('en-US', {timeZone: name, timeZoneName: 'longOffset'})
  }

  /** May end without a clock change. */
  spanAt(ms: number): OffsetSpan {
    const chunk = Math.floor(ms / CHUNK_MS)
    let spans = this.#spans.get(chunk)
    if (spans === undefined) {
      spans = this.#chunk(chunk * CHUNK_MS)
      if (this.#spans.size >= MOST_CHUNKS) this.#spans.clear()
      this.#spans.set(chunk, spans)
    }
    return spans.find(span => ms < span.untilMs) as OffsetSpan
  }

  #chunk(startMs: number): OffsetSpan[] {
    const endMs = startMs + CHUNK_MS
    const spans: OffsetSpan[] = []
    let fromMs = startMs
    let offsetMs = this.#offsetMs(startMs)
    for (let probeMs = startMs + PROBE_MS; probeMs <= endMs; probeMs += PROBE_MS) {
      const nextOffsetMs = this.#offsetMs(probeMs)
      if (nextOffsetMs === offsetMs) continue
      const untilMs = this.#changeMs(probeMs - PROBE_MS, probeMs)
      spans.push({offsetMs, fromMs, untilMs})
      fromMs = untilMs
      offsetMs = nextOffsetMs
    }
    if (fromMs < endMs) spans.push({offsetMs, fromMs, untilMs: endMs})
    return spans
  }

  #changeMs(beforeMs: number, afterMs: number): number {
    const offsetMs = this.#offsetMs(beforeMs)
    let low = beforeMs / MINUTE_MS
    let high = afterMs / MINUTE_MS
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (this.#offsetMs(middle * MINUTE_MS) === offsetMs) low = middle
      else high = middle
    }
    return high * MINUTE_MS
  }

  #offsetMs(ms: number): number {
    const match = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(this.#format.format(ms))
    if (!match)
      throw new Error(`Intl prints the offset of ${this.name} in an unknown format: ${this.#format.format(ms)}`)
    const [, sign, hours = 0, minutes = 0, seconds = 0] = match
    const offsetMs = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000
    return sign === '-' ? -offsetMs : offsetMs
  }
}

/** None where the wall-clock time is skipped, two where it comes twice. */
export function instantsAt(zone: TimeZone, wallMs: number): number[] {
  const offsets = new Set([wallMs - DAY_MS, wallMs + DAY_MS].map(ms => zone.spanAt(ms).offsetMs))
  return [...offsets]
    .map(offsetMs => wallMs - offsetMs)
    .filter(ms => ms + zone.spanAt(ms).offsetMs === wallMs)
    .sort((a, b) => a - b)
}

/** The latest wall-clock time that was shown up to an instant: it does not go back when clocks do. */
export function latestWallMs(zone: TimeZone, ms: number): number {
  let latestMs = ms + zone.spanAt(ms).offsetMs
  for (let at = zone.spanAt(ms).fromMs; at > ms - 2 * DAY_MS; ) {
    const {offsetMs, fromMs} = zone.spanAt(at - MINUTE_MS)
    latestMs = Math.max(latestMs, at - 1 + offsetMs)
    at = fromMs
  }
  return latestMs
}

/** When the wall clock first shows a time or, where that is skipped, a later one. Rounded up to a whole minute. */
export function firstInstantAt(zone: TimeZone, wallMs: number): number {
  let {offsetMs, fromMs, untilMs} = zone.spanAt(wallMs - DAY_MS)
  while (untilMs + offsetMs <= wallMs) ({offsetMs, fromMs, untilMs} = zone.spanAt(untilMs))
  return Math.max(fromMs, Math.ceil((wallMs - offsetMs) / MINUTE_MS) * MINUTE_MS)
}

const zones = new Map<string, TimeZone>()

export function timeZone(name: string): TimeZone {
  let zone = zones.get(name)
  if (zone === undefined) {
    zone = new TimeZone(name)
    zones.set(name, zone)
  }
  return zone
}

/** Requires the exact spelling of the time zone database, which every client of the table understands. */
export function checkTimeZoneName(name: string): string {
  if (timeZoneNames().has(name)) return name
  const hint = didYouMean(similarZones(name))
  throw new InvalidInput('zone.unknown', `Time zone "${name}" does not exist.`, {
    hint: hint ?? 'Use a name from the time zone database, such as Europe/Berlin, America/New_York or UTC.',
    details: {zone: name},
  })
}

/** By case, then by city, then by typo. Only names with a region count as typos: `PST` does not mean `EST`. */
function similarZones(typed: string): string[] {
  const all = [...timeZoneNames()]
  const wanted = typed.toLowerCase().replaceAll(' ', '_')
  const sameLetters = all.filter(name => name.toLowerCase() === wanted)
  if (sameLetters.length > 0) return sameLetters
  const sameCity = all.filter(name => name.toLowerCase().endsWith(`/${wanted}`))
  if (sameCity.length > 0) return sameCity.slice(0, 3)
  return nearestNames(
    typed,
    all.filter(name => name.includes('/')),
  )
}

/**
 * Names that `Intl` may not list, depending on its version. One region per line, `.` for names without one.
 * `Intl` also accepts invalid names (`PST`, `europe/berlin`), but a stored name must mean the same to all clients.
 */
const UNLISTED = `
.: CET CST6CDT Cuba EET EST EST5EDT Egypt Eire GB GB-Eire GMT GMT+0 GMT-0 GMT0 Greenwich HST Hongkong Iceland Iran
.: Israel Jamaica Japan Kwajalein Libya MET MST MST7MDT NZ NZ-CHAT Navajo PRC PST8PDT Poland Portugal ROC ROK
.: Singapore Turkey UCT UTC Universal W-SU WET Zulu
Africa: Accra Addis_Ababa Asmara Asmera Bamako Bangui Banjul Blantyre Brazzaville Bujumbura Conakry Dakar
Africa: Dar_es_Salaam Djibouti Douala Freetown Gaborone Harare Kampala Kigali Kinshasa Libreville Lome Luanda
Africa: Lubumbashi Lusaka Malabo Maseru Mbabane Mogadishu Niamey Nouakchott Ouagadougou Porto-Novo Timbuktu
America: Anguilla Antigua Aruba Atikokan Atka Blanc-Sablon Buenos_Aires Catamarca Cayman Coral_Harbour Cordoba Creston
America: Curacao Dominica Ensenada Fort_Wayne Godthab Grenada Guadeloupe Indianapolis Jujuy Knox_IN Kralendijk
America: Louisville Lower_Princes Marigot Mendoza Montreal Montserrat Nassau Nipigon Nuuk Pangnirtung Port_of_Spain
America: Porto_Acre Rainy_River Rosario Santa_Isabel Shiprock St_Barthelemy St_Kitts St_Lucia St_Thomas St_Vincent
America: Thunder_Bay Tortola Virgin Yellowknife
America/Argentina: Buenos_Aires Catamarca ComodRivadavia Cordoba Jujuy Mendoza
America/Indiana: Indianapolis
America/Kentucky: Louisville
Antarctica: DumontDUrville McMurdo South_Pole Syowa
Arctic: Longyearbyen
Asia: Aden Ashkhabad Bahrain Brunei Calcutta Choibalsan Chongqing Chungking Dacca Harbin Ho_Chi_Minh Istanbul Kashgar
Asia: Kathmandu Katmandu Kolkata Kuala_Lumpur Kuwait Macao Muscat Phnom_Penh Rangoon Saigon Tel_Aviv Thimbu
Asia: Ujung_Pandang Ulan_Bator Vientiane Yangon
Atlantic: Faeroe Faroe Jan_Mayen Reykjavik St_Helena
Australia: ACT Canberra Currie LHI NSW North Queensland South Tasmania Victoria West Yancowinna
Brazil: Acre DeNoronha East West
Canada: Atlantic Central Eastern Mountain Newfoundland Pacific Saskatchewan Yukon
Chile: Continental EasterIsland
Etc: GMT GMT+0 GMT-0 GMT0 Greenwich UCT UTC Universal Zulu
Europe: Amsterdam Belfast Bratislava Busingen Copenhagen Guernsey Isle_of_Man Jersey Kiev Kyiv Ljubljana Luxembourg
Europe: Mariehamn Monaco Nicosia Oslo Podgorica San_Marino Sarajevo Skopje Stockholm Tiraspol Uzhgorod Vaduz Vatican
Europe: Zagreb Zaporozhye
Indian: Antananarivo Christmas Cocos Comoro Kerguelen Mahe Mayotte Reunion
Mexico: BajaNorte BajaSur General
Pacific: Chuuk Enderbury Funafuti Johnston Kanton Majuro Midway Pohnpei Ponape Saipan Samoa Truk Wake Wallis Yap
US: Alaska Aleutian Arizona Central East-Indiana Eastern Hawaii Indiana-Starke Michigan Mountain Pacific Samoa
`

function timeZoneNames(): ReadonlySet<string> {
  names ??= new Set([...Intl.supportedValuesOf('timeZone'), ...unlistedNames(), ...fixedOffsets()])
  return names
}

let names: ReadonlySet<string> | undefined

function unlistedNames(): string[] {
  return UNLISTED.trim()
    .split('\n')
    .flatMap(line => {
      const [region = '', list = ''] = line.split(': ')
      return list.split(' ').map(name => (region === '.' ? name : `${region}/${name}`))
    })
}

/** `Etc/GMT+12` to `Etc/GMT-14`, with the sign of POSIX: `Etc/GMT-2` is two hours ahead of UTC. */
function fixedOffsets(): string[] {
  const west = Array.from({length: 12}, (_, at) => `Etc/GMT+${at + 1}`)
  const east = Array.from({length: 14}, (_, at) => `Etc/GMT-${at + 1}`)
  return [...west, ...east]
}
