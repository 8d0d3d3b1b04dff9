/// An error after a record was published. The record may not be on the medium, or could not be withdrawn.
///
/// The record must not be stored again, because others may have locked it in the meantime.
struct Published: Error {
  let cause: any Error
}
