internal import Foundation
package import SystemPackage

/// An unprivileged user, such as services run as.
///
/// It spares the store a check of a file's owner, because this user can open only its own files with O_NOATIME.
package enum ServiceUser {
  /// Changes the process permanently to a user who also gets the directory, which requires the superuser.
  package static func become(_ user: UInt32, owning directory: FilePath) throws {
    try BenchmarkFailure.check(chown(directory.string, user, user), "chown of \(directory)")
    try BenchmarkFailure.check(setgroups(0, nil), "setgroups")
    try BenchmarkFailure.check(setgid(user), "setgid to \(user)")
    try BenchmarkFailure.check(setuid(user), "setuid to \(user)")
    let isReached = access(directory.string, R_OK | W_OK | X_OK) == 0
    try BenchmarkFailure.require(isReached, "user \(user) does not reach \(directory); --directory names another place")
  }
}
