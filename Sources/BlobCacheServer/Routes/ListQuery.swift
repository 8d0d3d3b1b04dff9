internal import BlobRecord
internal import BlobStore

/// What a list is to have.
struct ListQuery {
  private static let largestPage = 1000

  private(set) var prefix = ""
  private(set) var start = WalkPosition.start
  private(set) var limit = 100
  private var states: Set<RecordState> = [.live, .locked]

  /// - Throws: 400 for another parameter, and for a value that is none of it.
  init(_ target: RequestTarget) throws(Refusal) {
    for (name, value) in target.query {
      switch name {
      case "prefix": prefix = value
      case "after":
        guard let position = WalkPosition(value) else {
          throw Refusal(400, "after must be what a page before has told")
        }
        start = position
      case "limit":
        guard let number = Int(value), (1...Self.largestPage).contains(number) else {
          throw Refusal(400, "limit must be a number from 1 to \(Self.largestPage)")
        }
        limit = number
      case "state":
        if value == "all" {
          states = Set(RecordState.allCases)
        } else {
          guard let state = RecordState(rawValue: value) else {
            let known = (RecordState.allCases.map(\.rawValue) + ["all"]).joined(separator: ", ")
            throw Refusal(400, "state must be one of \(known)")
          }
          states = state == .live ? [.live, .locked] : [state]
        }
      default: throw Refusal(400, "a list has the parameters prefix, after, limit and state")
      }
    }
  }

  func isWanted(_ entry: RecordEntry) -> Bool { states.contains(entry.state) }
}
