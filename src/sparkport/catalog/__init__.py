"""The contracts between the server and what it serves: pure protocols and values.

Reading (`tables`, `scan`): what SELECT, time travel, statistics and listings need.
    Catalog, Schema, Table, ScanOptions, ScanSlice, Snapshot, TimePoint, TimeUnit
    VersionedCatalog, CatalogVersion, VersionedTable, SplittableTable, PlanningTable, PlannedScan
    DynamicSchemaTable, SchemaRequest, StatisticsTable, ColumnStatistics, HasTableKind, TableKind
    HasDescription, TableDescription, ConstrainedTable, TableConstraints
    DirectTable, DirectReads, ReferenceTable, ClientCall

Writing (`dml`, `rowid`): INSERT, UPDATE and DELETE.
    InsertableTable, UpdatableTable, DeletableTable, StatementTable, Statement, DMLResult, rowid_field

DDL (`ddl`): CREATE, DROP and ALTER.
    DynamicCatalog, CreateSchemaOptions, DropSchemaOptions, DynamicSchema, RevertibleSchema, TaggedSchema
    CreateTableOptions, DropTableOptions, OnConflict, DynamicTable, TableChange, RenameTable
    AddColumn, AddColumnOptions, RemoveColumn, RemoveColumnOptions, RenameColumn, ChangeColumnType
    AddField, RemoveField, RenameField, SetDefault, SetNotNull, DropNotNull, AddConstraint,
    SetComment

Functions (`functions`, `parameters`): functions that clients call.
    ScalarFunction, TableFunction, TableInOutFunction, FunctionSignature, Parameter, Stability, ANY, TABLE

SQL (`sql`): statements in a language of the catalog's own.
    SqlCatalog, SqlStatement, SqlDescription

Transactions (`transactions`): several statements as one, or reads of one snapshot.
    TransactionalCatalog, TransactionManager, TransactionMode, TransactionState

Everywhere (`call`, `principal`, `lookup`): who calls, until when, and what about.
    Call, Principal, TablePath
"""

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    AddColumn,
    AddColumnOptions,
    AddConstraint,
    AddField,
    ChangeColumnType,
    CreateSchemaOptions,
    CreateTableOptions,
    DropNotNull,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicSchema,
    DynamicTable,
    OnConflict,
    RemoveColumn,
    RemoveColumnOptions,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    RevertibleSchema,
    SetComment,
    SetDefault,
    SetNotNull,
    TableChange,
    TaggedSchema,
)
from sparkport.catalog.dml import (
    DeletableTable,
    DMLResult,
    InsertableTable,
    Statement,
    StatementTable,
    UpdatableTable,
)
from sparkport.catalog.functions import (
    FunctionSignature,
    ScalarFunction,
    Stability,
    TableFunction,
    TableInOutFunction,
)
from sparkport.catalog.lookup import TablePath
from sparkport.catalog.parameters import ANY, TABLE, Parameter
from sparkport.catalog.principal import Principal
from sparkport.catalog.rowid import rowid_field
from sparkport.catalog.scan import (
    ClientCall,
    DirectReads,
    PlannedScan,
    ScanOptions,
    ScanSlice,
    SchemaRequest,
    Snapshot,
    TimePoint,
    TimeUnit,
)
from sparkport.catalog.sql import SqlCatalog, SqlDescription, SqlStatement
from sparkport.catalog.tables import (
    Catalog,
    CatalogVersion,
    ColumnStatistics,
    ConstrainedTable,
    DirectTable,
    DynamicSchemaTable,
    HasDescription,
    HasTableKind,
    PlanningTable,
    ReferenceTable,
    Schema,
    SplittableTable,
    StatisticsTable,
    Table,
    TableConstraints,
    TableDescription,
    TableKind,
    VersionedCatalog,
    VersionedTable,
)
from sparkport.catalog.transactions import (
    TransactionalCatalog,
    TransactionManager,
    TransactionMode,
    TransactionState,
)

__all__ = [
    "ANY",
    "TABLE",
    "AddColumn",
    "AddColumnOptions",
    "AddConstraint",
    "AddField",
    "Call",
    "Catalog",
    "CatalogVersion",
    "ChangeColumnType",
    "ClientCall",
    "ColumnStatistics",
    "ConstrainedTable",
    "CreateSchemaOptions",
    "CreateTableOptions",
    "DMLResult",
    "DeletableTable",
    "DirectReads",
    "DirectTable",
    "DropNotNull",
    "DropSchemaOptions",
    "DropTableOptions",
    "DynamicCatalog",
    "DynamicSchema",
    "DynamicSchemaTable",
    "DynamicTable",
    "FunctionSignature",
    "HasDescription",
    "HasTableKind",
    "InsertableTable",
    "OnConflict",
    "Parameter",
    "PlannedScan",
    "PlanningTable",
    "Principal",
    "ReferenceTable",
    "RemoveColumn",
    "RemoveColumnOptions",
    "RemoveField",
    "RenameColumn",
    "RenameField",
    "RenameTable",
    "RevertibleSchema",
    "ScalarFunction",
    "ScanOptions",
    "ScanSlice",
    "Schema",
    "SchemaRequest",
    "SetComment",
    "SetDefault",
    "SetNotNull",
    "Snapshot",
    "SplittableTable",
    "SqlCatalog",
    "SqlDescription",
    "SqlStatement",
    "Stability",
    "Statement",
    "StatementTable",
    "StatisticsTable",
    "Table",
    "TableChange",
    "TableConstraints",
    "TableDescription",
    "TableFunction",
    "TableInOutFunction",
    "TableKind",
    "TablePath",
    "TaggedSchema",
    "TimePoint",
    "TimeUnit",
    "TransactionManager",
    "TransactionMode",
    "TransactionState",
    "TransactionalCatalog",
    "UpdatableTable",
    "VersionedCatalog",
    "VersionedTable",
    "rowid_field",
]
