/** A metric as a scraper understands it; samples by their labels, as text. */
export interface ParsedFamily {
  readonly help: string
  readonly type: string
  readonly samples: ReadonlyMap<string, number>
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"/
const VALUE = /^(?:[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]Inf)$/

/** Reads Prometheus's text format (0.0.4), and throws where anything in it is not as it must be. */
export function parseExposition(text: string): Map<string, ParsedFamily> {
  if (text !== '' && !text.endsWith('\n')) throw new Error('the last line does not end')
  const families = new Map<string, {help: string; type: string; samples: Map<string, number>}>()
  let current = ''
  for (const line of text.split('\n').slice(0, -1)) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (keyword === 'HELP') {
      if (families.has(name)) throw new Error(`${name} comes twice`)
      if (NAME.exec(name)?.[0] !== name) throw new Error(`${name} is no name`)
      if (rest.replaceAll(/\\[\\n]/g, '').includes('\\')) throw new Error(`bad escape in the help of ${name}`)
      families.set(name, {help: rest, type: '', samples: new Map()})
      current = name
    } else if (keyword === 'TYPE') {
      const family = families.get(name)
      if (!family || name !== current || family.type !== '' || family.samples.size > 0)
        throw new Error(`TYPE of ${name} is not right after its HELP`)
      if (!/^(counter|gauge|histogram|summary|untyped)$/.test(rest)) throw new Error(`${rest} is no type`)
      family.type = rest
    } else {
      const sample = parseSample(line)
      const family = families.get(sample.name)
      if (!family || sample.name !== current || family.type === '') throw new Error(`not among its own: ${line}`)
      if (family.samples.has(sample.labels)) throw new Error(`twice: ${line}`)
      family.samples.set(sample.labels, sample.value)
    }
  }
  for (const [name, {samples}] of families) if (samples.size === 0) throw new Error(`${name} has no sample`)
  return families
}

function parseSample(line: string): {name: string; labels: string; value: number} {
  const [name] = NAME.exec(line) ?? []
  if (name === undefined) throw new Error(`no sample: ${line}`)
  let rest = line.slice(name.length)
  const labels: string[] = []
  if (rest.startsWith('{')) {
    rest = rest.slice(1)
    while (!rest.startsWith('}')) {
      const [whole, label = '', value = ''] = LABEL.exec(rest) ?? []
      if (whole === undefined) throw new Error(`bad label: ${line}`)
      if (labels.some(each => each.startsWith(`${label}=`))) throw new Error(`label twice: ${line}`)
      labels.push(`${label}=${value.replaceAll(/\\(.)/g, (_, char) => (char === 'n' ? '\n' : char))}`)
      rest = rest.slice(whole.length)
      if (rest.startsWith(',')) rest = rest.slice(1)
      else if (!rest.startsWith('}')) throw new Error(`labels do not end: ${line}`)
    }
    rest = rest.slice(1)
  }
  if (!rest.startsWith(' ') || !VALUE.test(rest.slice(1))) throw new Error(`bad value: ${line}`)
  return {name, labels: labels.join(' '), value: Number(rest.slice(1).replace('Inf', 'Infinity'))}
}
