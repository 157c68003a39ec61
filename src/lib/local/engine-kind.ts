/** The DynamoDB-compatible engines that can run on this machine without Docker or an account, in order of preference. */
export type EngineName = 'dynoxide' | 'dynamodb-local'

/** Builds the command line (program first) that serves on one loopback port; without a data folder it keeps all in memory. */
export type EngineCommand = (port: number, dataDir: string | undefined) => readonly string[]

/** What `startEngine` has to know about one engine. */
export interface EngineKind {
  readonly name: EngineName
  /**
   * Printed on stderr once the socket is bound. An answer alone does not prove that our engine is up: on a taken port
   * it comes from the stranger who holds it.
   */
  readonly announcement: string
  /** Finds what the engine needs; throws a `ZaelError` that says what is missing. */
  locate(): Promise<EngineCommand>
}
