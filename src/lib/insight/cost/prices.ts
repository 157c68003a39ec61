/** What AWS charges, in US dollars. Months are months of 30 days. */
export interface Prices {
  /** A million write units and read units, on demand. */
  readonly writesPerMillion: number
  readonly readsPerMillion: number
  /** One unit per second of provisioned capacity, for an hour. */
  readonly provisionedWritePerHour: number
  readonly provisionedReadPerHour: number
  /** A GB in table and indexes, and a GB of table under point-in-time recovery, for a month. */
  readonly storedPerGbMonth: number
  readonly recoveryPerGbMonth: number
  readonly runsPerMillion: number
  readonly armPerGbSecond: number
  readonly x86PerGbSecond: number
  readonly logsPerGb: number
  readonly alarmMetricPerMonth: number
  readonly dashboardPerMonth: number
  readonly metricPerMonth: number
}

/** The region and month of {@link LIST_PRICES}, which every output names. */
export const LIST_REGION = 'us-east-1'
export const LIST_DATE = '2026-11'

/**
 * List prices without the free tier: https://aws.amazon.com/dynamodb/pricing/, https://aws.amazon.com/lambda/pricing/,
 * https://aws.amazon.com/cloudwatch/pricing/. The only place of the sources that knows them; docs/deploying.md has the same.
 */
export const LIST_PRICES: Prices = {
  writesPerMillion: 0.625,
  readsPerMillion: 0.125,
  provisionedWritePerHour: 0.00065,
  provisionedReadPerHour: 0.00013,
  storedPerGbMonth: 0.25,
  recoveryPerGbMonth: 0.2,
  runsPerMillion: 0.2,
  armPerGbSecond: 0.0000133334,
  x86PerGbSecond: 0.0000166667,
  logsPerGb: 0.5,
  alarmMetricPerMonth: 0.1,
  dashboardPerMonth: 3,
  metricPerMonth: 0.3,
}

export interface UsedPrices {
  readonly prices: Prices
  /** File with prices of one's own; `null`: list prices only. */
  readonly file: string | null
}
