import {charactersIn, isCount, parseObject, recordOf, type TokenEstimate, tokensOfCharacters} from './model-call.js'

export class UsageTally {
  #input: number | undefined
  #output: number | undefined
  #isCounted = false
  #characters = 0
  #isComplete = false
  #hasFailed = false

  /** Undefined counts are not known yet. `final`: the counts are of the whole response. */
  count({input, output}: Partial<TokenEstimate>, final: boolean): void {
    this.#input = input ?? this.#input
    this.#output = output ?? this.#output
    this.#isCounted ||= final && output !== undefined
  }

  addText(value: unknown): void {
    this.#characters += charactersIn(value)
  }

  /** All parts have arrived, even if the connection breaks afterwards. */
  complete(): void {
    this.#isComplete = true
  }

  /** The provider gave up on the response, despite a status of success. */
  fail(): void {
    this.#hasFailed = true
  }

  /** Without the provider's count: the received tokens if broken off, otherwise the larger of estimate and received. */
  used(estimate: TokenEstimate, isBroken: boolean): TokenEstimate {
    const input = this.#input ?? estimate.input
    if (this.#isCounted) return {input, output: this.#output ?? 0}
    const known = Math.max(this.#output ?? 0, tokensOfCharacters(this.#characters))
    const isPart = (isBroken || this.#hasFailed) && !this.#isComplete
    return {input, output: isPart ? known : Math.max(known, estimate.input + estimate.output - input)}
  }
}

export function tallyAnswer(tally: UsageTally, text: string): void {
  const answer = parseObject(text)
  tallyUsage(tally, answer.usage, true)
  tally.addText([answer.choices, answer.content, answer.output])
  tally.complete()
}

export function tallyEvent(tally: UsageTally, data: string): void {
  if (data === '[DONE]') tally.complete()
  const event = parseObject(data)
  // Anthropic counts input at the start; OpenAI's responses count everything at the end.
  tallyUsage(tally, recordOf(event.message).usage, false)
  tallyUsage(tally, event.usage ?? recordOf(event.response).usage, true)
  const choices = Array.isArray(event.choices) ? event.choices.map(recordOf) : []
  tally.addText([event.delta, ...choices.flatMap(({delta, text}) => [delta, text])])
  if (event.type === 'message_stop' || event.type === 'response.completed') tally.complete()
  if (event.type === 'error' || event.type === 'response.failed' || event.error) tally.fail()
}

/** Anthropic counts cache writes apart from the input; cache reads do not count against its limits. */
function tallyUsage(tally: UsageTally, value: unknown, final: boolean): void {
  const usage = recordOf(value)
  const input = [usage.prompt_tokens, usage.input_tokens].find(isCount)
  const output = [usage.completion_tokens, usage.output_tokens].find(isCount)
  const cached = isCount(usage.cache_creation_input_tokens) ? usage.cache_creation_input_tokens : 0
  // Embeddings have no output.
  const isInputOnly = output === undefined && isCount(usage.total_tokens)
  tally.count(
    {
      ...(input !== undefined && {input: input + cached}),
      ...(output !== undefined && {output}),
      ...(isInputOnly && {output: 0}),
    },
    final,
  )
}
