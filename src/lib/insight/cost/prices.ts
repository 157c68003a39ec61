/** In US dollars. A month has 30 days. */
export interface Prices {
  readonly writesPerMillion: number
  readonly readsPerMillion: number
  /** For one unit per second. */
  readonly provisionedWritePerHour: number
  readonly provisionedReadPerHour: number
  /** Storage of table and indexes. Recovery covers the table only. */
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

export const LIST_REGION = 'us-east-1'
export const LIST_DATE = '2026-11'

/**
 * List prices without the free tier, also in docs/deploying.md: https://aws.amazon.com/dynamodb/pricing/,
 * https://aws.amazon.com/lambda/pricing/, https://aws.amazon.com/cloudwatch/pricing/.
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
  /** `null`: list prices only. */
  readonly file: string | null
}
