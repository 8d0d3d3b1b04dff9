import ArgumentParser

/// What is measured.
enum Subject: String, CaseIterable, ExpressibleByArgument {
  /// Stores that are on the medium when they return, in a pack beside in a file.
  case full
  /// Stores of many blobs together, beside one after the other.
  case batches
  /// The stripe of a record in a file, as a word in memory beside as a lock of a byte.
  case lock
  /// Two processes beside one.
  case processes
  /// A cache at its limit.
  case churn
  /// A large cache: its bytes on disk, its opening, its collection.
  case large

  var title: String {
    switch self {
    case .full: "full stores"
    case .batches: "batches"
    case .lock: "locks"
    case .processes: "two processes"
    case .churn: "a cache at its limit"
    case .large: "a large cache"
    }
  }

  func measured(by plan: PackPlan) throws -> [PackFigure] {
    switch self {
    case .full: try FullStores(plan).measured()
    case .batches: try Batches(plan).measured()
    case .lock: try LockCosts(plan).measured()
    case .processes: try TwoProcesses(plan).measured()
    case .churn: try Churn.Workload.allCases.flatMap { try Churn(plan, $0).measured() }
    case .large: try LargeCache(plan).measured()
    }
  }
}
