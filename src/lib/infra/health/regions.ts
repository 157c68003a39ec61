/** Regions that an account has from the start. */
const DEFAULT_REGIONS = {
  aws: `us-east-1 us-east-2 us-west-1 us-west-2 ca-central-1 sa-east-1 eu-central-1 eu-north-1 eu-west-1 eu-west-2 eu-west-3
    ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-southeast-1 ap-southeast-2`,
  'aws-cn': 'cn-north-1 cn-northwest-1',
  'aws-us-gov': 'us-gov-east-1 us-gov-west-1',
}

/** Regions that an account has to ask for. */
const OPTIONAL_REGIONS = `af-south-1 ap-east-1 ap-east-2 ap-south-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6
  ap-southeast-7 ca-west-1 eu-central-2 eu-south-1 eu-south-2 il-central-1 me-central-1 me-south-1 mx-central-1`

/** All regions that credentials for one of them can be used in, sorted; that one included, however new it is. */
export function regionsWith(region: string): string[] {
  const partition = region.startsWith('cn-') ? 'aws-cn' : region.startsWith('us-gov-') ? 'aws-us-gov' : 'aws'
  const names = [...wordsOf(DEFAULT_REGIONS[partition]), ...(partition === 'aws' ? wordsOf(OPTIONAL_REGIONS) : [])]
  return [...new Set([...names, region])].sort()
}

/** Whether a region refuses everybody who has not asked for it. */
export function isOptional(region: string): boolean {
  return wordsOf(OPTIONAL_REGIONS).includes(region)
}

function wordsOf(text: string): string[] {
  return text.split(/\s+/)
}
