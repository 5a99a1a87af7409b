use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// Data passed in by the caller. A `bytes` object is used directly; any other bytes-like object is copied,
/// because other code could change it during the call.
pub(crate) struct Data<'py>(Bound<'py, PyBytes>);

impl<'py> Data<'py> {
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Data<'py>> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Data(bytes.clone())),
            // The items of the object may have any type.
            Err(_) => {
                Ok(Data(PyMemoryView::from(object)?.call_method0("tobytes")?.cast::<PyBytes>()?.clone()))
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
