import type {HeaderFields, LimitBalance, LimitBalances} from '../limiter/refusal/headers.js'

/** Header fields that report the balance: those of the IETF draft, those of a model provider, or none. */
export type HeaderStyle = 'ietf' | 'openai' | 'anthropic' | 'none'

/** Names of the limits that count requests and tokens. Default: `rpm` and `tpm`. */
export interface LimitNames {
  readonly requests?: string
  readonly tokens?: string
}

/** Only the limits that count requests and tokens have `x-ratelimit-*` or `anthropic-ratelimit-*` fields. */
export function dialectHeaders(
  style: 'openai' | 'anthropic',
  limits: LimitBalances,
  {requests = 'rpm', tokens = 'tpm'}: LimitNames,
  nowMs: number,
): HeaderFields {
  const fieldsOf = style === 'openai' ? openaiFields : anthropicFields
  return {
    ...(limits[requests] && fieldsOf('requests', limits[requests], nowMs)),
    ...(limits[tokens] && fieldsOf('tokens', limits[tokens], nowMs)),
  }
}

function openaiFields(what: string, {capacity, available, fullAfterMs}: LimitBalance): HeaderFields {
  return {
    [`x-ratelimit-limit-${what}`]: String(capacity),
    [`x-ratelimit-remaining-${what}`]: String(Math.max(0, available)),
    ...(fullAfterMs !== null && {[`x-ratelimit-reset-${what}`]: durationText(fullAfterMs)}),
  }
}

function anthropicFields(what: string, {capacity, available, fullAfterMs}: LimitBalance, nowMs: number): HeaderFields {
  const prefix = `anthropic-ratelimit-${what}`
  return {
    [`${prefix}-limit`]: String(capacity),
    [`${prefix}-remaining`]: String(Math.max(0, available)),
    ...(fullAfterMs !== null && {[`${prefix}-reset`]: instantText(nowMs + fullAfterMs)}),
  }
}

/** `120ms`, `7s`, `6m0s`, `2h0m30s`: rounded up, to whole seconds from 1 s on. */
export function durationText(ms: number): string {
  if (Math.ceil(ms) < 1000) return `${Math.ceil(ms)}ms`
  const seconds = Math.ceil(ms / 1000)
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  return h > 0 ? `${h}h${m}m${s}s` : m > 0 ? `${m}m${s}s` : `${s}s`
}

function instantText(ms: number): string {
  return new Date(Math.ceil(ms / 1000) * 1000).toISOString().replace('.000Z', 'Z')
}
