import {printableLines} from '../../core/text/printable.js'

export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** A metric in Prometheus's text format. Every one of zael's is a gauge: buckets come and go. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly samples: readonly MetricSample[]
}

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export function expositionText(families: readonly MetricFamily[]): string {
  return families
    .filter(({samples}) => samples.length > 0)
    .map(({name, help, samples}) => {
      const lines = samples.map(({labels, value}) => `${name}${labelText(labels)} ${value}`)
      return `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} gauge\n${lines.join('\n')}\n`
    })
    .join('')
}

function labelText(labels: MetricSample['labels']): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

/** A terminal that it is printed on must not act on a name either. */
const escaped = (value: string): string =>
  printableLines(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
