//! Undocumented tables.

#[local] #[get_proc("cuGetExportTable", 3000)]
fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid) -> CUresult;
