//! The rules that all types with a separate `/status` subresource share. Every file of types beside this one uses them.

/// The items of an `impl Stored` for a type with `/status`: the status is a field of that name, all else is the spec. A new object has the
/// status `initial`, whatever its creator sends; without an `initial` it keeps the status in the create.
#[macro_export]
macro_rules! status_subresource {
    () => {
        const HAS_STATUS: bool = true;

        fn copy_status(&mut self, other: &Self) {
            self.status.clone_from(&other.status);
        }

        fn spec_differs(&self, other: &Self) -> bool {
            self.spec != other.spec
        }

        fn status_differs(&self, other: &Self) -> bool {
            self.status != other.status
        }
    };
    (initial: $status:expr) => {
        $crate::status_subresource!();

        fn reset_status(&mut self) {
            self.status = $status;
        }
    };
}
