#!/bin/bash
set -e
cd /app
echo 41 >> page.txt
echo horse > final.txt
