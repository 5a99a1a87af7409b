//! Tables as CSV and, beside it, as Parquet: the same content with types, faster to load.

use std::fs;
use std::io;
use std::path::Path;

/// Writes a table that is given as CSV with a header to `file`, and as Parquet to the file of the same name that ends in `.parquet`.
/// There the columns in `texts` are strings and all others doubles; an empty field is null.
///
/// # Errors
/// What the file system says, or a field that is no number.
pub(crate) fn write(file: &Path, csv: &str, texts: &[&str]) -> io::Result<()> {
    fs::write(file, csv)?;
    #[cfg(feature = "parquet")]
    typed::write(&file.with_extension("parquet"), csv, texts)?;
    #[cfg(not(feature = "parquet"))]
    let _ = texts;
    Ok(())
}

#[cfg(feature = "parquet")]
mod typed {
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
    use parquet::column::writer::ColumnWriter;
    use parquet::data_type::ByteArray;
    use parquet::errors::ParquetError;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;

    pub(super) fn write(file: &Path, text: &str, texts: &[&str]) -> io::Result<()> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers()?.clone();
        let rows = reader.records().collect::<Result<Vec<_>, _>>()?;
        let failed = |e: ParquetError| io::Error::other(format!("{}: {e}", file.display()));
        let column = |name: &str| {
            let (physical, logical) = match texts.contains(&name) {
                true => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                false => (Physical::DOUBLE, None),
            };
            let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
            column.with_logical_type(logical).build().map(Arc::new)
        };
        let columns = header.iter().map(column).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let schema = Type::group_type_builder("table").with_fields(columns).build().map_err(failed)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut out = SerializedFileWriter::new(File::create(file)?, Arc::new(schema), Arc::new(properties))
            .map_err(failed)?;
        let mut group = out.next_row_group().map_err(failed)?;
        for name in 0..header.len() {
            let Some(mut column) = group.next_column().map_err(failed)? else { break };
            let fields: Vec<&str> = rows.iter().map(|row| &row[name]).collect();
            let present: Vec<i16> = fields.iter().map(|field| i16::from(!field.is_empty())).collect();
            let given = fields.iter().filter(|field| !field.is_empty());
            match column.untyped() {
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    let values: Vec<ByteArray> = given.map(|field| ByteArray::from(*field)).collect();
                    writer.write_batch(&values, Some(&present), None).map_err(failed)?;
                }
                ColumnWriter::DoubleColumnWriter(writer) => {
                    let number = |field: &&str| {
                        let wrong =
                            |_| io::Error::other(format!("{}: `{field}` is no number", &header[name]));
                        field.parse().map_err(wrong)
                    };
                    let values = given.map(number).collect::<io::Result<Vec<f64>>>()?;
                    writer.write_batch(&values, Some(&present), None).map_err(failed)?;
                }
                _ => return Err(io::Error::other("a column of neither strings nor doubles")),
            }
            column.close().map_err(failed)?;
        }
        group.close().map_err(failed)?;
        out.close().map_err(failed)?;
        Ok(())
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    #[test]
    fn both_files_hold_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.csv");
        let csv = "contender,path.*.owd,rx_mbps\nccid2,10 ms,9.5\n\"a,b\",300 ms,\n";
        write(&file, csv, &["contender", "path.*.owd"]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), csv);
        let reader =
            SerializedFileReader::new(fs::File::open(file.with_extension("parquet")).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let first = &rows[0];
        assert_eq!((first.get_string(0).unwrap().as_str(), first.get_double(2).unwrap()), ("ccid2", 9.5));
        assert_eq!(
            (rows[1].get_string(0).unwrap().as_str(), rows[1].get_string(1).unwrap().as_str()),
            ("a,b", "300 ms")
        );
        assert!(rows.len() == 2 && rows[1].get_double(2).is_err(), "an empty field is null");
    }

    #[test]
    fn a_number_that_is_none_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let wrong = write(&dir.path().join("t.csv"), "rx_mbps\nfast\n", &[]).unwrap_err();
        assert_eq!(wrong.to_string(), "rx_mbps: `fast` is no number");
    }
}
