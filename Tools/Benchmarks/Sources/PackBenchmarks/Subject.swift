import ArgumentParser

/// The subject of a measurement.
enum Subject: String, CaseIterable, ExpressibleByArgument {
  /// Stores that are durable when they return, in a pack and in a file.
  case full
  /// Batches of stores, compared with individual stores.
  case batches
  /// The lock of a stripe for records in files, as a word in memory and as a lock on a byte of a file.
  case lock
  /// Two processes, compared with one.
  case processes
  /// A cache at its limit.
  case churn
  /// The disk space, the opening and the collection of a large cache.
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
