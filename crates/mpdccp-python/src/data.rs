use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Data passed in by the caller. A `bytes` object is used directly; any other buffer is copied, because other
/// code could change it during the call.
pub(crate) enum Data<'py> {
    Bytes(Bound<'py, PyBytes>),
    Copy(Vec<u8>),
}

impl<'py> Data<'py> {
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Data<'py>> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Data::Bytes(bytes.clone())),
            Err(_) => Ok(Data::Copy(PyBuffer::<u8>::get(object)?.to_vec(object.py())?)),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Data::Bytes(bytes) => bytes.as_bytes(),
            Data::Copy(copy) => copy,
        }
    }
}
